"""All checks together, as the doctor shows them."""

import json

from cortex.interfaces.cli import run


def test_healthy_machine_has_no_problems(doctor, start):
    code, found, body = doctor()
    assert (code, found, body["problems"]) == (0, {}, [])
    start()
    code, found, body = doctor()
    assert (code, found) == (0, {})
    (cortexd,) = [finding for finding in body["findings"] if finding["check"] == "cortexd"]
    assert "started by cortex start" in cortexd["text"] and "CORTEX_NO_SIDECAR" in cortexd["text"]


def test_doctor_outside_a_project_examines_the_machine(capsys, root, isolated, monkeypatch):
    monkeypatch.chdir(isolated.user)
    capsys.readouterr()
    assert run(["doctor", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["workspaces"] == []
    assert {"cortexd", "git", "disk", "clients"} <= {
        finding["check"] for finding in body["findings"]
    }


def test_doctor_prints_each_finding_as_a_line_with_its_fix(capsys, root):
    (root / "c.py").write_text("z = 3\n", encoding="utf-8")
    capsys.readouterr()
    assert run(["doctor", str(root)]) == 0
    out = capsys.readouterr().out
    assert "warning      freshness: 1 files have changed" in out
    assert "fix: cortex index" in out
    assert out.rstrip().endswith("1 problem; `cortex doctor --fix` sees to 1 of them")
