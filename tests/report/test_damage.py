"""Run folders that are damaged, changed or hostile: the report names what is wrong and uses the rest."""

import json
from io import BytesIO

import pytest
from PIL import Image

from report.folders import claim, edit_record, experiment, rewrite, run_folder
from report.pages import page_of
from runs.sample import GIF
from wane.files import checksum
from wane.lab import report
from wane.lab.report import pictures
from wane.texts import plain
from wane_paper.collection import RESULTS


@pytest.mark.parametrize(
    ("file", "content", "named"),
    [
        ("claims.json", "[{", "claims.json cannot be read"),
        ("claims.json", "{}", "claims.json holds a dict where a list belongs"),
        ("claims.json", "[" * 100_000, "claims.json cannot be read"),
        ("claims.json", json.dumps([claim(verdict="perhaps")]), "1 of 1 entries are not claims with a verdict"),
        ("claims.json", json.dumps([claim(kind=[])]), "1 of 1 entries are not claims with a verdict"),
        ("claims.json", json.dumps([claim(account=7)]), "1 of 1 entries are not claims with a verdict"),
        ("claims.json", json.dumps([claim(interval=[1.0])]), "1 of 1 entries are not claims with a verdict"),
        ("claims.json", json.dumps([claim(interval=7)]), "1 of 1 entries are not claims with a verdict"),
        ("claims.json", json.dumps([claim(estimate=None)]), "1 of 1 entries are not claims with a verdict"),
        ("claims.json", json.dumps([claim(estimate=10**400)]), "1 of 1 entries are not claims with a verdict"),
        ("claims.json", None, "claims.json is missing"),
        ("run.json", "\xff", "run.json cannot be read"),
        ("run.json", "7", "run.json holds a int where a dict belongs"),
        ("run.json", '{"seconds": -1}', "run.json has no usable 'seconds'"),
        ("run.json", '{"files": ["claims.json"]}', "run.json has no usable 'files'"),
        ("run.json", '{"files": {"claims.json": 7}}', "run.json has no usable 'files'"),
        ("run.json", '{"texts": {"title": 7}}', "run.json has no usable 'texts'"),
        ("run.json", '{"settings": ' + '{"a": ' * 60 + "1" + "}" * 61, "run.json nests lists or dictionaries"),
        (
            "run.json",
            None,
            "There is no run.json: the run is still working or was stopped. Continue it with wane run toy",
        ),
        ("returns.parquet", None, "returns.parquet is missing"),
        ("film.gif", "GIF89a", "film.gif is not a whole GIF picture"),
        ("film.gif", None, "film.gif is missing"),
    ],
)
def test_damage_is_named_and_breaks_nothing(tmp_path, file, content, named):
    folder = run_folder(tmp_path / "runs")
    run_folder(tmp_path / "runs", "whole")
    if content is None:
        (folder / file).unlink()
    else:
        rewrite(folder, file, content)
    page = page_of(tmp_path / "runs", experiments=[experiment(), experiment("whole")])
    assert "Damaged or incomplete run folders" in page.text
    assert str(folder) in page.text
    assert named in page.text
    assert page.verdicts()[-2:] == ["holds", "fails"]
    if file in ("claims.json", "run.json"):
        assert page.verdicts()[:2] == ["not run", "not run"]


def test_missing_and_truncated_figures(tmp_path):
    folder = run_folder(tmp_path, films={})
    record = json.loads((folder / "run.json").read_text())
    del record["files"]["figure.svg"]
    (folder / "run.json").write_text(json.dumps(record))
    whole = (folder / "figure.png").read_bytes()
    rewrite(folder, "figure.png", whole[: len(whole) // 2])
    page = page_of(tmp_path)
    assert "figure.png is not a whole PNG picture" in page.text
    assert page.all("img") == []
    (folder / "figure.png").unlink()
    text = page_of(tmp_path).text
    assert text.count("figure.png is missing") == 2
    assert "The run has no figure that can be shown." in text


def gif(frames: int, padding: int = 0) -> bytes:
    """A film of one pixel, with some frames and bytes that nobody needs."""
    start, frame = GIF[:-16], GIF[-16:-1]
    return start + frames * frame + b";" + bytes(padding)


def png(width: int, height: int) -> bytes:
    """A picture of one colour, which takes few bytes."""
    data = BytesIO()
    Image.new("1", (width, height)).save(data, "PNG")
    return data.getvalue()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("film.gif", gif(1, pictures.MOST_BYTES), "it has 10,000,035 bytes, and 10,000,000 are the most"),
        ("film.gif", gif(pictures.MOST_FRAMES + 1), "it has more than 25,000,000 pixels or 2,000 frames"),
        ("figure.png", png(5000, 5001), "it has more than 25,000,000 pixels or 2,000 frames"),
        ("figure.png", png(10_000, 10_000), "it has more than 25,000,000 pixels or 2,000 frames"),
        ("figure.png", png(20_000, 20_000), "it has more than 25,000,000 pixels"),
        ("figure.png", bytes(pictures.MOST_BYTES + 1), "it has 10,000,001 bytes, and 10,000,000 are the most"),
    ],
)
def test_a_picture_that_is_too_large_is_left_out_and_told(tmp_path, file, content, told):
    folder = run_folder(tmp_path, films={"film.gif": "A film"})
    rewrite(folder, file, content)
    if file == "figure.png":
        rewrite(folder, "figure.svg", "no drawing")
    (run,) = report.collect(tmp_path)
    assert run.left_out == (f"{file} is not shown: {told}.",)
    assert run.problems == (), "a large picture is no damage"
    page = page_of(tmp_path)
    assert run.left_out[0] in page.text
    assert len(page.all("img")) == (2 if file == "film.gif" else 1)


def test_all_pictures_of_a_run_are_not_too_large_together(tmp_path):
    names = [f"film-{i}.gif" for i in range(5)]
    folder = run_folder(tmp_path, films=dict.fromkeys(names, "A film"))
    for name in names:
        rewrite(folder, name, gif(1, 8_000_000))
    (run,) = report.collect(tmp_path)
    assert len(run.films) == 3
    assert [text.split(":")[0] for text in run.left_out] == ["film-3.gif is not shown", "film-4.gif is not shown"]
    assert "would have more than 30 MB together" in page_of(tmp_path).text


def test_films_of_this_package_are_counted_as_pillow_counts_them():
    for path in sorted(RESULTS.glob("paper/*/*.gif"))[:5]:
        with Image.open(path) as image:
            assert pictures._frames(path.read_bytes()) == image.n_frames > 1
    assert [pictures._frames(gif(n)) for n in (0, 1, 7, 10_000)] == [0, 1, 7, pictures.MOST_FRAMES + 1]


@pytest.mark.parametrize(
    "file", ["claims.json", "returns.parquet", "figure.svg", "film.gif", "agents/best/config.json"]
)
def test_a_file_that_was_changed_is_named_and_not_used(tmp_path, file):
    folder = run_folder(tmp_path, agents=["best", "other"])
    (folder / file).write_bytes((folder / file).read_bytes() + b" ")
    (run,) = report.collect(tmp_path)
    assert run.problems == (f"{file} was changed after the run: run.json notes another SHA-256.",)
    assert f"{file} was changed after the run" in page_of(tmp_path).text
    assert (run.claims == ()) == (file == "claims.json")
    assert (run.films == ()) == (file == "film.gif")
    assert run.agents == (("other",) if "best" in file else ("best", "other"))
    assert run.figure
    assert run.figure.mime == ("image/png" if file == "figure.svg" else "image/svg+xml")


def test_a_file_that_no_checksum_covers_is_named_and_not_used(tmp_path):
    folder = run_folder(tmp_path)
    edit_record(folder, tables=["returns", "second"], agents=["ghost"])
    (folder / "second.parquet").write_bytes(b"PAR1")
    (folder / "stray.gif").write_bytes((folder / "film.gif").read_bytes())
    (run,) = report.collect(tmp_path)
    assert run.problems == (
        "second.parquet is not among the files that run.json lists.",
        "agents/ghost/config.json is missing.",
        "agents/ghost/params.safetensors is missing.",
    )
    assert [film.title for film in run.films] == ["An agent at work"]
    assert run.agents == ()


@pytest.mark.parametrize(
    "name", ["../outside", "/etc/outside", "linked/outside", "link", "nul\0", "half\ud800", "circle"]
)
def test_a_table_that_leads_out_of_the_folder_is_no_table(tmp_path, name):
    outside = tmp_path / "quick" / "outside.parquet"
    folder = run_folder(tmp_path)
    outside.write_bytes(b"PAR1")
    (folder / "linked").symlink_to(outside.parent)
    (folder / "link.parquet").symlink_to(outside)
    (folder / "circle.parquet").symlink_to(folder / "circle.parquet")
    edit_record(folder, tables=["returns", name], files={f"{name}.parquet": checksum(outside)})
    (run,) = report.collect(tmp_path)
    assert run.problems == (plain(f"{name}.parquet leads out of the folder."),)


@pytest.mark.parametrize("depth", [0, 1])
def test_links_to_folders_of_runs_are_not_followed(tmp_path, depth):
    folder = run_folder(tmp_path / "runs", device="a secret")
    place = folder if depth == 0 else folder.parent
    place.symlink_to(place.rename(tmp_path / "elsewhere"))
    (run,) = report.collect(tmp_path / "runs")
    assert run.problems == (f"{place} is a symbolic link, which is not followed.",)
    page = page_of(tmp_path / "runs")
    assert "is a symbolic link" in page.text
    assert "a secret" not in page.text
    assert report.collect(folder)[0].problems == (), "whoever names a folder may name a link"


def test_results_that_are_not_all_in_their_places_yet_are_read_from_where_they_are(tmp_path):
    folder = run_folder(tmp_path)
    (folder / ".ready").mkdir()
    for name in ("run.json", "claims.json"):
        (folder / name).rename(folder / ".ready" / name)
    for root in (tmp_path, folder):
        (run,) = report.collect(root)
        assert run.problems == ()
        assert len(run.claims) == 2


def test_a_record_that_is_a_link_out_of_the_folder_is_not_read(tmp_path):
    folder = run_folder(tmp_path)
    (folder / "run.json").rename(tmp_path / "run.json")
    (folder / "run.json").symlink_to(tmp_path / "run.json")
    (run,) = report.collect(tmp_path / "quick" / "toy")
    assert run.problems == ("run.json leads out of the folder.",)
    assert run.claims == ()
