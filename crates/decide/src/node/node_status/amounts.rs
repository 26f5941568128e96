//! Resource quantities in upstream's notation.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use values::quantity::{binary_si, decimal_si, decimal_si_from_milli};

use crate::quantity::amount_of;

/// Formats an amount as upstream does: `cpu` in millicores and `pods` as decimal SI, everything else as binary SI.
pub(super) fn quantity(resource: &str, amount: i64) -> Quantity {
    Quantity(match resource {
        "cpu" => decimal_si_from_milli(amount),
        "pods" => decimal_si(amount),
        _ => binary_si(amount),
    })
}

/// Sets an amount unless the list has an equal one in another notation.
pub(super) fn put(list: &mut crate::quantity::ResourceList, resource: &str, amount: i64) {
    let new = quantity(resource, amount);
    if list.get(resource).is_none_or(|old| amount_of(old) != amount_of(&new)) {
        list.insert(resource.to_owned(), new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_amounts_like_upstream() {
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
    fn equal_amount_keeps_notation() {
        let mut list = [("memory".to_owned(), Quantity("1048576".into()))].into();
        put(&mut list, "memory", 1 << 20);
        assert_eq!(list["memory"].0, "1048576");
        put(&mut list, "memory", 2 << 20);
        assert_eq!(list["memory"].0, "2Mi");
    }
}
