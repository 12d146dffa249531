//! `derelict explain`: every signal of one directory with its value and where it came from, the verdict, and the rule
//! that decided. It is how a person argues with the tool, so nothing is left out.

use anyhow::anyhow;
use derelict_core::evidence::{
    Answer, ChannelReport, Claim, ClaimedPath, Evidence, Layout, Lease, Observed, SourceReport,
};
use derelict_core::ids::Timestamp;
use derelict_core::outcome::verdict_label;
use derelict_core::plan::Judged;
use serde_json::{Value, json};

use crate::console::Console;
use crate::estate::{Estate, Found};
use crate::exit::{Exit, Failure};
use crate::host::Host;
use crate::out::Out;
use crate::{cli, json, proof, text, words};

/// Room for the name of a signal or a channel.
const LABEL_COLUMNS: usize = 14;

/// Runs the command.
///
/// # Errors
/// A [`Failure`] when the place is not one clone, or when an owner source cannot be asked.
pub(crate) fn run(flags: &cli::Explain, host: &Host, console: &mut Console) -> Result<Exit, Failure> {
    let place = text::path(&flags.place);
    let estate = match Estate::locate(Some(&flags.place), host)? {
        Found::Estate(estate) => estate,
        Found::Nothing(_) => return Err(Failure::usage(anyhow!("{place} is no clone of a cache"))),
    };
    if estate.only().is_none() {
        return Err(Failure::usage(anyhow!("{place} is a whole cache; name one clone in it")));
    }
    let (judged, disclosures) = estate.examine(&flags.words, console)?;
    if flags.json {
        console.out.line(json::explain(&judged, &evidence(&judged.evidence), Exit::Done));
        return Ok(Exit::Done);
    }
    report(console, &judged);
    for disclosure in disclosures {
        console.out.line(console.paint.aside(&format!("Note: {}", text::sentence(&disclosure))));
    }
    Ok(Exit::Done)
}

/// Prints all that is known of one directory.
fn report(console: &mut Console, judged: &Judged) {
    let Console { out, paint, .. } = console;
    out.line(paint.heading(&text::path(&judged.candidate.path)));
    verdict(out, judged);
    out.blank();
    out.line(paint.heading("Evidence"));
    let evidence = &judged.evidence;
    for report in evidence.sources() {
        source(out, report);
    }
    item(out, "touched", &touched(&evidence.touched));
    item(out, "layout", &layout(&evidence.layout));
    uses(out, evidence);
    match &evidence.proof {
        Observed::Unknown(blind) => item(out, "unsaved", &words::blind(blind)),
        Observed::Known(proof) => {
            proof.channels.iter().for_each(|report| channel(out, report));
            proof.allowed.iter().for_each(|loss| item(out, "let go", &format!("{}, by policy", loss.what)));
        }
    }
}

fn verdict(out: &mut Out, judged: &Judged) {
    item(out, "verdict", verdict_label(&judged.verdict));
    item(out, "rule", words::rule(&judged.verdict));
    for reason in words::reasons(&judged.verdict) {
        item(out, "because", &reason);
    }
    let remedy = words::remedy(&judged.verdict);
    item(out, "would change", remedy.as_deref().unwrap_or("nothing needs to: it may go"));
    let freed = judged.size.freed_alone();
    item(out, "frees", &format!("{}, {}", text::freed(&freed), text::count(freed.inodes, text::INODE)));
}

fn source(out: &mut Out, report: &SourceReport) {
    let label = &report.source.0;
    match &report.claims {
        Observed::Unknown(blind) => item(out, label, &words::blind(blind)),
        Observed::Known(claims) if claims.is_empty() => item(out, label, "names nobody for it"),
        Observed::Known(claims) => claims.iter().for_each(|claim| item(out, label, &words::claim(claim))),
    }
}

fn touched(touched: &Observed<Timestamp>) -> String {
    match touched {
        Observed::Known(at) => text::instant(*at),
        Observed::Unknown(blind) => words::blind(blind),
    }
}

fn layout(layout: &Observed<Layout>) -> String {
    match layout {
        Observed::Unknown(blind) => words::blind(blind),
        Observed::Known(Layout::Any) => "none is prescribed".into(),
        Observed::Known(Layout::Expected) => "as expected".into(),
        Observed::Known(Layout::Unexpected(found)) => format!("unexpected: {found}"),
        Observed::Known(Layout::NestedCheckout(path)) => format!("a checkout inside: {}", text::path(path)),
    }
}

fn uses(out: &mut Out, evidence: &Evidence) {
    match &evidence.uses {
        Observed::Unknown(blind) => item(out, "use", &words::blind(blind)),
        Observed::Known(uses) if uses.is_empty() => item(out, "use", "nobody and nothing"),
        Observed::Known(uses) => uses.iter().for_each(|holder| item(out, "use", &words::holder(holder))),
    }
}

fn channel(out: &mut Out, report: &ChannelReport) {
    let items = proof::answer(&report.answer).1;
    let summary = match &report.answer {
        Answer::Nothing => "nothing would be lost".into(),
        Answer::Losses(losses) => text::count(losses.count() as u64, text::LOSS),
        Answer::Unknown(_) => "could not tell".into(),
    };
    let print = proof::short(&report.fingerprint);
    item(out, report.channel.0, &format!("{}: {summary} ({print})", report.examined));
    for what in items {
        item(out, "", &what);
    }
}

fn item(out: &mut Out, label: &str, value: &str) {
    out.line(format_args!("  {}{}", text::pad(label, LABEL_COLUMNS), text::sentence(value)));
}

/// The same evidence for programs.
fn evidence(evidence: &Evidence) -> Value {
    json!({
        "sources": evidence.sources().iter().map(source_json).collect::<Vec<_>>(),
        "touched": observed(&evidence.touched, |at| json!(text::instant(*at))),
        "layout": observed(&evidence.layout, |_| json!(layout(&evidence.layout))),
        "uses": match &evidence.uses {
            Observed::Known(uses) => uses.iter().map(words::holder).collect(),
            Observed::Unknown(_) => Value::Null,
        },
        "uses_unknown": unknown(&evidence.uses),
        "channels": match &evidence.proof {
            Observed::Known(proof) => proof::channels(proof),
            Observed::Unknown(_) => Value::Null,
        },
        "channels_unknown": unknown(&evidence.proof),
        "allowed": words::allowed(evidence),
    })
}

fn observed<T>(signal: &Observed<T>, known: impl FnOnce(&T) -> Value) -> Value {
    match signal {
        Observed::Known(value) => known(value),
        Observed::Unknown(blind) => json!({ "unknown": blind.why }),
    }
}

fn unknown<T>(signal: &Observed<T>) -> Value {
    match signal {
        Observed::Known(_) => Value::Null,
        Observed::Unknown(blind) => Value::from(blind.why.as_str()),
    }
}

fn source_json(report: &SourceReport) -> Value {
    json!({
        "source": *report.source.0,
        "claims": match &report.claims {
            Observed::Known(claims) => claims.iter().map(claim_json).collect(),
            Observed::Unknown(_) => Value::Null,
        },
        "unknown": unknown(&report.claims),
    })
}

fn claim_json(claim: &Claim) -> Value {
    let (at, place) = match &claim.at {
        ClaimedPath::Here => ("here", None),
        ClaimedPath::Within => ("within", None),
        ClaimedPath::Above => ("above", None),
        ClaimedPath::Elsewhere(place) => ("elsewhere", Some(place)),
    };
    let lease = match &claim.lease {
        Lease::Standing => json!("standing"),
        Lease::LastUsed(at) => json!({ "last_used": text::instant(*at) }),
        Lease::Held { reason } => json!({ "held": reason }),
    };
    json!({ "owner": claim.owner.0, "at": at, "where": place, "lease": lease })
}

#[cfg(test)]
mod tests {
    use derelict_core::evidence::{Blind, Channel, Holder, Loss, Proof, Signal};
    use derelict_core::ids::{Digest, NonEmpty, OwnerId, SourceId};

    use super::*;
    use crate::findings::samples::{judged, unsaved};

    fn sample() -> Judged {
        let devpod = SourceId("devpod".into());
        let place = ClaimedPath::Elsewhere("/w\u{1b}".into());
        let claim = Claim { source: devpod.clone(), owner: OwnerId("api-1".into()), at: place, lease: Lease::Standing };
        let blind = Blind { signal: Signal::Owner, why: "metadata.json line 3: not JSON".into() };
        let sources = vec![
            SourceReport { source: devpod, claims: Observed::Known(vec![claim]) },
            SourceReport { source: SourceId("devlaunch".into()), claims: Observed::Unknown(blind) },
        ];
        let channel = Channel("untracked");
        let loss = Loss { channel, what: "untracked: notes".into(), fingerprint: Digest::of_bytes(b"") };
        let report = ChannelReport::new(channel, "12 entries".into(), Answer::Losses(NonEmpty::of(loss)));
        let evidence = Evidence::new(
            sources,
            Observed::Known(Timestamp::new(0, 0)),
            Observed::Known(Layout::Any),
            Observed::Known(vec![Holder::DirectoryLock]),
            Observed::Known(Proof::of(vec![report])),
        );
        Judged { evidence: evidence.expect("because sources were asked"), ..judged(b"a", 1024, unsaved()) }
    }

    #[test]
    fn every_signal_is_told_with_its_source() {
        let shown = crate::console::capture(|console| report(console, &sample()));
        let expected = r"/c/repos/acme/api/a
  verdict       unsaved
  rule          5 of 6: nobody owns it, and it holds the only copy of something
  because       changed: pixi.lock
  would change  save that elsewhere, or let it go with --rescue or --force
  frees         up to 1.0 KiB, 3 inodes

Evidence
  devpod        devpod: api-1 is recorded for it but says it lives at /w\x1b
  devlaunch     the owner could not be told: metadata.json line 3: not JSON
  touched       1970-01-01 00:00:00 UTC
  layout        none is prescribed
  use           somebody holds a lock on the directory
  untracked     12 entries: 1 loss (aa555e5c5392)
                untracked: notes
";
        assert_eq!(shown, expected);
    }

    #[test]
    fn the_evidence_for_programs_tells_unknown_from_empty() {
        let value = evidence(&sample().evidence);
        let claim = json!({ "owner": "api-1", "at": "elsewhere", "where": "/w\u{1b}", "lease": "standing" });
        assert_eq!(value["sources"][0], json!({ "source": "devpod", "claims": [claim], "unknown": null }));
        assert_eq!(value["sources"][1]["claims"], Value::Null);
        assert_eq!(value["sources"][1]["unknown"], "metadata.json line 3: not JSON");
        let channel = json!({ "channel": "untracked", "examined": "12 entries", "answer": "losses", "items": ["untracked: notes"],
            "fingerprint": "aa555e5c5392bffe76847efd696f7c14f4681dae22cf7e7d1b9f27912ae2bce7" });
        assert_eq!(value["channels"], json!([channel]));
    }
}
