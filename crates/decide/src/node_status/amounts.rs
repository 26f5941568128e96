//! Amounts as the API writes them.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::quantity::Amount;
use crate::quantity::text::{binary, decimal};

/// An amount of a resource in the form that upstream gives it: `cpu` in thousandths, `pods` counted, the rest in
/// powers of 1024.
pub(super) fn quantity(resource: &str, amount: i64) -> Quantity {
    Quantity(match resource {
        "cpu" if amount % 1000 != 0 => format!("{amount}m"),
        "cpu" => decimal(amount / 1000),
        "pods" => decimal(amount),
        _ => binary(amount),
    })
}

/// Sets an amount unless the same is there already in another form.
pub(super) fn put(list: &mut crate::quantity::ResourceList, resource: &str, amount: i64) {
    let new = quantity(resource, amount);
    if list.get(resource).is_none_or(|old| Amount::of(old) != Amount::of(&new)) {
        list.insert(resource.to_owned(), new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_as_upstream_does() {
        let cases = [
            ("cpu", 4000, "4"),
            ("cpu", 3500, "3500m"),
            ("cpu", 0, "0"),
            ("memory", 8 << 30, "8Gi"),
            ("memory", 16_374_808 << 10, "16374808Ki"),
            ("ephemeral-storage", 37_569_620_725, "37569620725"),
            ("hugepages-2Mi", 0, "0"),
            ("memory", 1000, "1k"),
            ("pods", 110, "110"),
            ("pods", 1000, "1k"),
        ];
        for (resource, amount, expected) in cases {
            assert_eq!(quantity(resource, amount).0, expected, "{resource} {amount}");
        }
    }

    #[test]
    fn the_same_amount_keeps_its_form() {
        let mut list = [("memory".to_owned(), Quantity("1048576".into()))].into();
        put(&mut list, "memory", 1 << 20);
        assert_eq!(list["memory"].0, "1048576");
        put(&mut list, "memory", 2 << 20);
        assert_eq!(list["memory"].0, "2Mi");
    }
}
