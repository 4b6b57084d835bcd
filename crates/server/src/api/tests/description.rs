//! The API's description matches its router.

use super::*;
use crate::api::routes::{Description, routes};
use std::collections::{BTreeMap, BTreeSet};
use utoipa::OpenApi;

#[test]
fn every_route_is_described_and_every_description_has_a_route() {
    let described: serde_json::Value = serde_json::to_value(Description::openapi()).unwrap();
    let paths: BTreeSet<&str> = described["paths"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let routed: BTreeSet<&str> = routes().iter().map(|(path, _)| *path).collect();
    assert_eq!(paths, routed);
    let served = Served::new(Level::Raid0, 2);
    let fetched: serde_json::Value = served.client().get("/v1/openapi.json").unwrap();
    assert_eq!(fetched, described);
    for (path, operations) in described["paths"].as_object().unwrap() {
        let concrete = path
            .replace("{member}", "no such")
            .replace("{volume}", "no such");
        let concrete = concrete.replace(' ', "%20");
        for method in operations.as_object().unwrap().keys() {
            if path == "/v1/events/stream" {
                continue;
            }
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let result = served
                .client()
                .order::<serde_json::Value>(method.clone(), &concrete);
            if let Err(error) = result
                && let Some(ClientError::Answered { code, body }) = error.downcast_ref()
            {
                assert_ne!(*code, 405, "{method} {path}");
                assert!(
                    !body.error.contains("openapi.json"),
                    "{method} {path}: {}",
                    body.error
                );
            }
        }
    }
}

/// Adds all keys of `value`, with their paths, to `found`. A list counts by its first element.
fn shape(value: &serde_json::Value, at: &str, found: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            found.insert(format!("{at}.{key}"));
            shape(value, &format!("{at}.{key}"), found);
        }),
        serde_json::Value::Array(values) => {
            values
                .iter()
                .take(1)
                .for_each(|value| shape(value, &format!("{at}[]"), found));
        }
        _ => {}
    }
}

#[test]
fn the_status_has_the_fields_that_its_schema_promises() {
    let described: serde_json::Value = serde_json::to_value(Description::openapi()).unwrap();
    let schemas = &described["components"]["schemas"];
    let served = Served::new(Level::Raid5, 3);
    let request = super::super::schema::RateRequest {
        bytes_per_s: 1 << 20,
    };
    let _: Done = served
        .client()
        .send(Method::PUT, "/v1/rate", &request)
        .unwrap();
    served.post("/v1/volumes/v/scrub").unwrap();
    let status: serde_json::Value = served.client().get("/v1/status").unwrap();
    let samples: BTreeMap<&str, &serde_json::Value> = [
        ("Status", &status),
        ("VolumeStatus", &status["volumes"][0]),
        ("SlotStatus", &status["volumes"][0]["slots"][0]),
        ("JobStatus", &status["volumes"][0]["job"]),
        ("MemberStatus", &status["members"][0]),
    ]
    .into();
    for (name, sample) in samples {
        let promised: BTreeSet<&String> = schemas[name]["properties"]
            .as_object()
            .unwrap()
            .keys()
            .collect();
        let found: BTreeSet<&String> = sample.as_object().unwrap().keys().collect();
        assert_eq!(found, promised, "{name}");
    }
    let mut found = BTreeSet::new();
    shape(&status, "status", &mut found);
    assert!(found.contains("status.volumes[].slots[].member"));
    let _: Done = served
        .client()
        .order(Method::DELETE, "/v1/volumes/v/job")
        .unwrap();
}
