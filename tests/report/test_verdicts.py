"""What the report makes of the verdicts of many claims and runs."""

from report.folders import claim, rewrite, run_folder, untested
from report.pages import EVIL, page_of, printed
from wane.lab import report
from wane.lab.report.verdicts import judged


def test_untested_claims_are_counted_apart_with_their_reason(tmp_path):
    run_folder(tmp_path, claims=[claim("first"), untested("second")])
    page = page_of(tmp_path)
    assert page.verdicts() == ["holds", "not tested"]
    assert "One λ is not enough." in page.text
    assert "1 claim was not tested 0 claims were not run" in page.text
    assert (
        "that the runs do not test (1) The second claim. the paper, figure 9.9 · About toy One λ is not enough."
        in page.text
    )
    one_run = untested("second", detail="One run has no interval.") | {"estimate": 0.25}
    run_folder(tmp_path / "more", claims=[one_run])
    shown = printed(report.summary(report.collect(tmp_path / "more")))
    assert shown.splitlines() == ["1 claim was not tested at quick scale.", "? second  One run has no interval."]
    assert "? second: not tested, quick scale, 0.25" in printed(report.details(report.collect(tmp_path / "more")))


def test_claims_of_the_paper_are_counted_apart_from_ours_and_from_identities(tmp_path):
    ours, identity = {"kind": "ours", "place": ""}, {"kind": "identity", "place": ""}
    claims = [claim("a"), claim("b", "undecided"), claim("c", "fails", **ours), claim("d", **ours)]
    run_folder(tmp_path, claims=[*claims, claim("e", **identity), untested("f") | ours])
    page = page_of(tmp_path)
    tiles = "1 claim holds 0 claims fail 1 claim is undecided 0 claims were not tested 2 claims were not run"
    assert tiles in page.text
    told = "Of our own questions beyond the paper, 1 claim holds, 1 claim fails and 1 claim was not tested."
    told += " Of the identities, which only a fault of the program could refute, 1 claim holds."
    assert told in page.text
    assert "What of the paper fails" not in page.text
    assert (
        "What of the paper is undecided The b claim. the paper, figure 9.9 · About toy 1.234 [−0.5, 2.5]" in page.text
    )
    assert "beyond the paper (1) ✗ fails The c claim. our question · About toy" in page.text
    assert "Claims of the paper that the runs do not test" not in page.text
    shown = printed(report.summary(report.collect(tmp_path))).splitlines()
    assert shown[1] == "Of these, the paper's own: 1 claim holds and 1 claim is undecided."
    assert [line[:3] for line in shown[2:]] == ["✗ c", "~ b", "? f", "✓ a", "✓ d", "✓ e"]


def test_an_identity_that_fails_is_not_folded_away(tmp_path):
    run_folder(tmp_path, claims=[claim("first", "fails", kind="ours", place="")])
    (ours,) = [each for each in page_of(tmp_path).all("details") if each.get("class") == "ours"]
    assert "open" not in ours
    run_folder(tmp_path, "other", claims=[claim("second", "fails", kind="identity", place="")])
    page = page_of(tmp_path)
    (ours,) = [each for each in page.all("details") if each.get("class") == "ours"]
    assert "open" in ours
    assert "✗ fails The second claim. identity · About other" in page.text


def test_a_failing_claim_of_the_paper_is_told_with_its_account(tmp_path):
    account = f"The paper says so. We did as it does. {EVIL}"
    ours = claim("ours", "fails", kind="ours", place="", account="Not for the paper.")
    claims = [claim("first", account="Not for what holds."), claim("second", "fails", account=account), ours]
    run_folder(tmp_path, claims=claims)
    page = page_of(tmp_path)
    assert page.text.count(account) == 2, "in the list of what fails and in the details"
    detailed = printed(report.details(report.collect(tmp_path)))
    assert "We did as it does." in detailed
    assert "Not for" not in detailed
    assert "What of the paper fails The second claim. the paper, figure 9.9 · About toy" in page.text
    assert "Not for" not in page.text
    assert page.all("script") == []


def test_a_run_with_fewer_seeds_never_overrides_one_with_more(tmp_path):
    run_folder(tmp_path, claims=[claim("first")], settings={"seeds": 64})
    run_folder(tmp_path, scale="paper", claims=[claim("first", "undecided")], settings={"seeds": 3})
    (experiment,) = judged(report.collect(tmp_path), [])
    assert (experiment.claims[0].verdict, experiment.claims[0].decisive) == ("holds", "quick")
    assert "✓ first  1.234" in printed(report.summary(report.collect(tmp_path)))


def test_the_decisive_scale_comes_first_and_the_other_where_it_ran(tmp_path):
    run_folder(tmp_path, claims=[claim("first", "fails"), claim("second")])
    run_folder(tmp_path, scale="paper", claims=[claim("first"), untested("second")])
    page = page_of(tmp_path)
    assert page.verdicts("sign") == ["holds", "holds"]
    assert page.verdicts() == ["holds", "fails", "holds", "not tested"]
    assert "The first claim. the paper, figure 9.9 ✓ holds paper scale · 1.234" in page.text
    assert "The second claim. the paper, figure 9.9 ✓ holds quick scale · 1.234" in page.text
    assert "not run" not in page.text.replace("0 claims were not run", "")
    assert "2 claims hold" in page.text
    assert page.text.index("--scale paper") < page.text.index("--scale quick")


def test_what_did_not_run_is_listed(tmp_path):
    page = page_of(tmp_path / "nowhere")
    assert page.verdicts("sign") == page.verdicts() == ["not run"] * 2
    assert "The second claim of toy." in page.text
    assert "wane run toy --scale quick" in page.text


def test_changed_settings_do_not_decide_the_verdict(tmp_path):
    run_folder(tmp_path, changed={"agent.step_size": 0.1, "lambdas": [0.0, 0.5]})
    page = page_of(tmp_path)
    assert page.verdicts() == ["not run"] * 2 + ["holds", "fails"]
    assert "Quick scale, with agent.step_size = 0.1, lambdas = [0.0, 0.5]" in page.text
    assert "wane run toy --scale quick --agent.step-size 0.1 --lambdas 0.0 0.5" in page.text
    assert "agent.step_size 0.1 changed agent.timing arrival Folder" in page.text


def test_the_first_whole_run_is_taken(tmp_path):
    run_folder(tmp_path / "a", device="first")
    run_folder(tmp_path / "b", device="second")
    runs = report.collect(tmp_path / "a", tmp_path / "b")
    assert [run.record["device"] for run in runs] == ["first"]
    rewrite(tmp_path / "a" / "quick" / "toy", "claims.json", "[")
    page = page_of(tmp_path / "a", tmp_path / "b")
    assert page.verdicts()[:2] == ["holds", "fails"]
    assert "claims.json cannot be read" in page.text
