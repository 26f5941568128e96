//! Amounts of the resource lists that API objects carry.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use values::quantity::Amount;

pub type ResourceList = BTreeMap<String, Quantity>;

/// Malformed text counts as zero, because validation has rejected it before.
pub fn amount_of(quantity: &Quantity) -> Amount {
    Amount::parse(&quantity.0).unwrap_or(Amount::ZERO)
}

/// Zero if the list has no such entry.
pub fn amount_in(list: Option<&ResourceList>, name: &str) -> Amount {
    list.and_then(|list| list.get(name)).map_or(Amount::ZERO, amount_of)
}

/// Whole units (bytes, pods), rounded up.
pub fn bytes(quantity: &Quantity) -> i64 {
    amount_of(quantity).units()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_names_and_malformed_quantities_count_as_zero() {
        let list: ResourceList = [("cpu".to_owned(), Quantity("2".into()))].into();
        assert_eq!(amount_in(Some(&list), "cpu"), Amount::from_units(2));
        assert_eq!(amount_in(Some(&list), "memory"), Amount::ZERO);
        assert_eq!(amount_in(None, "cpu"), Amount::ZERO);
        assert_eq!(bytes(&Quantity("nonsense".into())), 0);
    }
}
