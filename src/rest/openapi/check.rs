//! Whether a JSON value is what a schema says: as much of JSON Schema as the description uses.
//! Patterns and formats are left to others.

use serde_json::Value;

/// `Err` says where the value differs and how. `document` is where references lead.
pub fn check(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    check_at(document, schema, value, "")
}

fn check_at(document: &Value, schema: &Value, value: &Value, place: &str) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{place}: {what}, not {value}"));
    for (keyword, rule) in schema.as_object().into_iter().flatten() {
        match keyword.as_str() {
            "$ref" => {
                let target = rule.as_str().and_then(|path| path.strip_prefix('#'));
                let target = target.and_then(|pointer| document.pointer(pointer));
                check_at(
                    document,
                    target.expect("a reference leads somewhere"),
                    value,
                    place,
                )?;
            }
            "type" => {
                let kinds = rule
                    .as_array()
                    .cloned()
                    .unwrap_or_else(|| vec![rule.clone()]);
                if !kinds
                    .iter()
                    .any(|kind| is_of(value, kind.as_str().unwrap_or_default()))
                {
                    return wrong(&format!("must be {rule}"));
                }
            }
            "const" if value != rule => return wrong(&format!("must be {rule}")),
            "enum"
                if !rule
                    .as_array()
                    .is_some_and(|choices| choices.contains(value)) =>
            {
                return wrong(&format!("must be one of {rule}"));
            }
            "minimum" if value.as_f64() < rule.as_f64() && value.is_number() => {
                return wrong(&format!("must be {rule} at least"));
            }
            "maximum" if value.as_f64() > rule.as_f64() && value.is_number() => {
                return wrong(&format!("must be {rule} at most"));
            }
            "minItems"
                if value
                    .as_array()
                    .is_some_and(|items| (items.len() as u64) < rule.as_u64().unwrap_or(0)) =>
            {
                return wrong("has too few items");
            }
            "maxItems"
                if value
                    .as_array()
                    .is_some_and(|items| items.len() as u64 > rule.as_u64().unwrap_or(0)) =>
            {
                return wrong("has too many items");
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check_at(document, rule, item, &format!("{place}/{index}"))?;
                }
            }
            "required" if value.is_object() => {
                for name in rule.as_array().into_iter().flatten() {
                    if value.get(name.as_str().unwrap_or_default()).is_none() {
                        return wrong(&format!("must have {name}"));
                    }
                }
            }
            "properties" => {
                for (name, schema) in rule.as_object().into_iter().flatten() {
                    if let Some(member) = value.get(name) {
                        check_at(document, schema, member, &format!("{place}/{name}"))?;
                    }
                }
            }
            "additionalProperties" => {
                for (name, member) in value.as_object().into_iter().flatten() {
                    if schema["properties"].get(name).is_some() {
                        continue;
                    }
                    match rule {
                        Value::Bool(false) => return wrong(&format!("must not have {name}")),
                        rule => check_at(document, rule, member, &format!("{place}/{name}"))?,
                    }
                }
            }
            "allOf" => {
                for schema in rule.as_array().into_iter().flatten() {
                    check_at(document, schema, value, place)?;
                }
            }
            "anyOf" => {
                let choices = rule.as_array().into_iter().flatten();
                let why: Vec<String> = choices
                    .map(|schema| check_at(document, schema, value, place))
                    .map_while(Result::err)
                    .collect();
                if why.len() == rule.as_array().map_or(0, Vec::len) {
                    return Err(why.join(" / "));
                }
            }
            "not" => return wrong("must not be"),
            _ => {}
        }
    }
    Ok(())
}

fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}
