//! The output of Go's debug printer for the internal pod.

use std::fmt::Write;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use super::StaticUidError;
use super::quantity::{InternalQuantity, write_unset};
use super::schema::{Declared, Json, Schema, map_value};

const SECONDS_FROM_YEAR_ONE: i64 = 62_135_596_800;
/// The printer shows a time with its zone. This is the zone of a node that runs in UTC. For other zones upstream prints
/// tables that change with the seasons, so its UID of such a manifest is not stable either.
const UTC_ZONE: &str = "(*time.Location){name:(string)Local \
    zone:([]time.zone)[{name:(string)UTC offset:(int)0 isDST:(bool)false}] \
    tx:([]time.zoneTrans)[{when:(int64)-9223372036854775808 index:(uint8)0 isstd:(bool)false isutc:(bool)false}] \
    extend:(string)UTC0 cacheStart:(int64)-9223372036854775808 cacheEnd:(int64)9223372036854775807 \
    cacheZone:(*time.zone){name:(string)UTC offset:(int)0 isDST:(bool)false}}";

pub(super) fn write_pod(pod: &Value, out: &mut impl Write) -> Result<(), StaticUidError> {
    let mut dump = Dump { schema: Schema::of_upstream(), out, field: "Pod" };
    dump.typed("*core.Pod", Some(pod))
}

struct Dump<'a, W> {
    schema: &'static Schema,
    out: &'a mut W,
    /// The current field, for errors.
    field: &'static str,
}

/// An absent value and `null` are the same.
type JsonValue<'v> = Option<&'v Value>;

impl<W: Write> Dump<'_, W> {
    fn typed(&mut self, type_name: &'static str, value: JsonValue<'_>) -> Result<(), StaticUidError> {
        let value = value.filter(|value| !value.is_null());
        write!(self.out, "({type_name})")?;
        match (type_name.strip_prefix('*'), value) {
            (Some(_), None) => self.text("<nil>"),
            (Some(pointee), Some(_)) => self.untyped(pointee, value),
            (None, _) => self.untyped(type_name, value),
        }
    }

    fn untyped(&mut self, type_name: &'static str, value: JsonValue<'_>) -> Result<(), StaticUidError> {
        let value = value.filter(|value| !value.is_null());
        if let Some(element) = type_name.strip_prefix("[]") {
            return self.list(type_name, element, value);
        }
        if let Some(element) = map_value(type_name) {
            return self.map(type_name, element, value);
        }
        match type_name {
            "string" => self.string(type_name, value),
            "bool" => {
                let flag = value.map_or(Some(false), Value::as_bool);
                self.display(type_name, flag)
            }
            "int32" | "int64" => {
                let number = value.map_or(Some(0), Value::as_i64);
                self.display(type_name, number)
            }
            _ => self.declared(type_name, value),
        }
    }

    fn declared(&mut self, type_name: &'static str, value: JsonValue<'_>) -> Result<(), StaticUidError> {
        let schema = self.schema;
        match schema.get(type_name).ok_or(StaticUidError::Undeclared(type_name))? {
            Declared::Text => self.string(type_name, value),
            Declared::Map(element) => self.map(type_name, element, value),
            Declared::Quantity => self.quantity(value, Rounding::None),
            Declared::Time => self.time(type_name, value),
            Declared::RawJson => self.raw_json(value),
            Declared::IntOrString => self.int_or_string(type_name, value),
            Declared::Struct(fields) => {
                if value.is_some_and(|value| !value.is_object()) {
                    return Err(self.shape(type_name));
                }
                self.text("{")?;
                for (index, field) in fields.iter().enumerate() {
                    self.separate(index)?;
                    write!(self.out, "{}:", field.name)?;
                    self.field = field.name;
                    let inner = match field.json {
                        Json::Inline => value,
                        Json::Key(key) => value.and_then(|value| value.get(key)),
                    };
                    self.typed(field.type_name, inner)?;
                }
                self.text("}")
            }
        }
    }

    fn list(
        &mut self,
        type_name: &'static str,
        element: &'static str,
        value: JsonValue<'_>,
    ) -> Result<(), StaticUidError> {
        let Some(value) = value else { return self.text("<nil>") };
        let entries = value.as_array().ok_or_else(|| self.shape(type_name))?;
        self.text("[")?;
        for (index, entry) in entries.iter().enumerate() {
            self.separate(index)?;
            self.untyped(element, Some(entry))?;
        }
        self.text("]")
    }

    fn map(
        &mut self,
        type_name: &'static str,
        element: &'static str,
        value: JsonValue<'_>,
    ) -> Result<(), StaticUidError> {
        let Some(value) = value else { return self.text("<nil>") };
        let mut entries: Vec<_> = value.as_object().ok_or_else(|| self.shape(type_name))?.iter().collect();
        entries.sort_by_key(|(key, _)| key.as_str());
        self.text("map[")?;
        for (index, (key, entry)) in entries.into_iter().enumerate() {
            self.separate(index)?;
            write!(self.out, "{key}:")?;
            match self.schema.get(element) {
                // Every map of quantities is a resource list, which defaulting rounds up to thousandths.
                Some(Declared::Quantity) => self.quantity(Some(entry), Rounding::UpToMilli)?,
                _ => self.untyped(element, Some(entry))?,
            }
        }
        self.text("]")
    }

    fn string(&mut self, type_name: &'static str, value: JsonValue<'_>) -> Result<(), StaticUidError> {
        self.display(type_name, value.map_or(Some(""), Value::as_str))
    }

    fn quantity(&mut self, value: JsonValue<'_>, rounding: Rounding) -> Result<(), StaticUidError> {
        let text = match value {
            None | Some(Value::Null) => return Ok(write_unset(self.out)?),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        let Some(quantity) = InternalQuantity::parse(text.trim()) else {
            return Err(StaticUidError::Quantity { field: self.field, text });
        };
        let quantity = match rounding {
            Rounding::None => quantity,
            Rounding::UpToMilli => quantity.rounded_up_to_milli(),
        };
        Ok(quantity.write(self.out)?)
    }

    fn time(&mut self, type_name: &'static str, value: JsonValue<'_>) -> Result<(), StaticUidError> {
        let Some(value) = value else {
            return self.text("{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}");
        };
        let Ok(Time(time)) = serde_json::from_value(value.clone()) else { return Err(self.shape(type_name)) };
        let (seconds, nanos) = (time.as_second() + SECONDS_FROM_YEAR_ONE, time.subsec_nanosecond());
        write!(self.out, "{{Time:(time.Time){{wall:(uint64){nanos} ext:(int64){seconds} loc:{UTC_ZONE}}}}}")?;
        Ok(())
    }

    fn raw_json(&mut self, value: JsonValue<'_>) -> Result<(), StaticUidError> {
        self.text("{Raw:([]uint8)")?;
        let Some(value) = value else { return self.text("<nil>}") };
        self.text("[")?;
        for (index, byte) in value.to_string().bytes().enumerate() {
            self.separate(index)?;
            write!(self.out, "{byte}")?;
        }
        self.text("]}")
    }

    fn int_or_string(&mut self, type_name: &'static str, value: JsonValue<'_>) -> Result<(), StaticUidError> {
        let (kind, number, text) = match value {
            None => (0, 0, ""),
            Some(Value::String(text)) => (1, 0, text.as_str()),
            Some(other) => (0, other.as_i64().ok_or_else(|| self.shape(type_name))?, ""),
        };
        write!(self.out, "{{Type:(intstr.Type){kind} IntVal:(int32){number} StrVal:(string){text}}}")?;
        Ok(())
    }

    fn separate(&mut self, index: usize) -> Result<(), StaticUidError> {
        if index > 0 { self.text(" ") } else { Ok(()) }
    }

    fn text(&mut self, text: &str) -> Result<(), StaticUidError> {
        Ok(self.out.write_str(text)?)
    }

    fn display(
        &mut self,
        type_name: &'static str,
        value: Option<impl std::fmt::Display>,
    ) -> Result<(), StaticUidError> {
        let value = value.ok_or_else(|| self.shape(type_name))?;
        Ok(write!(self.out, "{value}")?)
    }

    fn shape(&self, expected: &'static str) -> StaticUidError {
        StaticUidError::Shape { field: self.field, expected }
    }
}

#[derive(Debug, Clone, Copy)]
enum Rounding {
    None,
    UpToMilli,
}
