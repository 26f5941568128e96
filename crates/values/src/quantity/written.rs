//! Quantities of a configuration file, which are shown as the user wrote them.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, de};

use super::{Amount, Quantity};

/// A quantity with its text, which serde and `Display` write back unchanged. (Upstream writes the canonical form.)
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct WrittenQuantity {
    text: String,
    #[serde(skip)]
    amount: Amount,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a quantity such as \"10Mi\", \"500m\" or \"2\"")]
pub struct WrittenQuantityError(String);

impl WrittenQuantity {
    pub fn zero() -> Self {
        Self { text: "0".to_owned(), amount: Amount::ZERO }
    }

    pub fn amount(&self) -> Amount {
        self.amount
    }

    pub fn is_zero(&self) -> bool {
        self.amount.is_zero()
    }

    pub fn is_negative(&self) -> bool {
        self.amount < Amount::ZERO
    }
}

impl fmt::Display for WrittenQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for WrittenQuantity {
    type Err = WrittenQuantityError;

    fn from_str(text: &str) -> Result<Self, WrittenQuantityError> {
        let quantity: Quantity = text.parse().map_err(|_| WrittenQuantityError(text.to_owned()))?;
        Ok(Self { text: text.to_owned(), amount: Amount::from(&quantity) })
    }
}

impl<'de> Deserialize<'de> for WrittenQuantity {
    /// A string, or a plain number.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a quantity such as \"10Mi\"")]
        enum Value {
            Text(String),
            Unsigned(u64),
            Signed(i64),
            Float(f64),
        }
        let text = match Value::deserialize(deserializer)? {
            Value::Text(text) => text,
            Value::Unsigned(number) => number.to_string(),
            Value::Signed(number) => number.to_string(),
            Value::Float(number) => format!("{number:?}"),
        };
        text.parse().map_err(de::Error::custom)
    }
}
