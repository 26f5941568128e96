/// A group of metrics: each field with its initial value, the name of its family, and its help text.
macro_rules! metrics_group {
    (
        $(#[$about:meta])*
        $group:ident {
            $( $(#[$doc:meta])* $visible:vis $field:ident: $kind:ty = $start:expr, $name:literal, $help:literal; )*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug)]
        pub struct $group {
            $( $(#[$doc])* $visible $field: $kind, )*
        }

        impl Default for $group {
            fn default() -> Self {
                Self { $( $field: $start, )* }
            }
        }

        impl $group {
            pub(super) fn write(&self, page: &mut $crate::metrics::Page) {
                $( page.add($name, $help, &self.$field); )*
            }
        }
    };
}
