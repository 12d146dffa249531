//! Holds the examples of `deploy/` against what a reaper needs: nothing that hides what proves use, nothing that touches
//! the workspaces, never two at a time, and nobody armed by deploying.

use std::path::Path;

/// The lines of an example that are no comments, trimmed.
fn lines(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
    let lines = text.lines().map(|line| line.trim().to_owned());
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

fn has(name: &str, expected: &str) {
    let lines = lines(name);
    assert!(lines.iter().any(|line| line == expected), "{name} lacks `{expected}`");
}

const UNITS: [&str; 2] = ["systemd/derelict-reap.service", "systemd/derelict-serve.service"];
const MANIFESTS: [&str; 2] = ["kubernetes/cronjob.yaml", "kubernetes/deployment.yaml"];

#[test]
fn no_unit_hides_the_roots_or_the_processes_that_prove_use() {
    // Each of these gives the service another view of files, mounts or processes than its neighbours have, or takes
    // `openat2` away.
    let blinding = [
        "PrivateTmp",
        "ProtectHome",
        "ProtectProc",
        "ProcSubset",
        "PrivateMounts",
        "PrivateUsers",
        "PrivatePIDs",
        "ProtectSystem",
        "ReadOnlyPaths",
        "InaccessiblePaths",
        "RootDirectory",
        "DynamicUser",
        "RestrictSUIDSGID",
    ];
    for unit in UNITS {
        for line in lines(unit) {
            let key = line.split('=').next().unwrap_or(&line).to_owned();
            assert!(!blinding.contains(&key.as_str()), "{unit}: {line}");
        }
        has(unit, "NoNewPrivileges=yes");
        has(unit, "StateDirectory=derelict");
    }
}

#[test]
fn the_units_run_the_commands_they_are_named_for() {
    let textfile = "--metrics-textfile /var/lib/prometheus/node-exporter/derelict.prom";
    has(UNITS[0], &format!("ExecStart=/usr/bin/derelict reap --config /etc/derelict/config.toml {textfile}"));
    has(UNITS[0], "Type=oneshot");
    has("systemd/derelict-reap.timer", "Persistent=true");
    has(UNITS[1], "ExecStart=/usr/bin/derelict serve --config /etc/derelict/config.toml");
    // A configuration that is refused is not better at the next try.
    has(UNITS[1], "RestartPreventExitStatus=2");
}

#[test]
fn no_two_sweeps_run_at_a_time_in_a_cluster() {
    has(MANIFESTS[0], "concurrencyPolicy: Forbid");
    has(MANIFESTS[1], "replicas: 1");
    has(MANIFESTS[1], "type: Recreate");
}

#[test]
fn no_manifest_touches_the_workspaces_by_being_applied() {
    for manifest in MANIFESTS {
        let lines = lines(manifest);
        // The kubelet would change the group of every file of every workspace.
        assert!(!lines.iter().any(|line| line.starts_with("fsGroup")), "{manifest}");
        // The claim is the producer's own: the example brings none for the workspaces.
        has(manifest, "claimName: paperclip-data");
        assert!(lines.iter().all(|line| line != "name: paperclip-data"), "{manifest}");
    }
}

#[test]
fn nobody_is_armed_by_deploying() {
    for manifest in MANIFESTS {
        assert!(!lines(manifest).iter().any(|line| line.contains("armed")), "{manifest}");
    }
}

#[test]
fn probes_ask_the_endpoints_that_exist() {
    has(MANIFESTS[1], "path: /healthz");
    has(MANIFESTS[1], "path: /readyz");
}
