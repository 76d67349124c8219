"""tools/validate_costs on one published row, and on rows that it refuses: validate_costs_test.py TOOL."""

import pathlib
import subprocess
import sys
import tempfile

COLUMNS = "source,gpu,gpus,precision,model,gbs,mbs,seq,fsdp,tp,pp,cp,vp,ep,tokens_s_gpu,tflops_gpu\n"
PUBLISHED = "a,H100,8,FP8-CS,llama3-8b,128,1,8192,8,1,1,1,1,1,14451,744\n"
REFUSED = {
    PUBLISHED.replace("FP8-CS", "FP7"): "rows.csv:2: precision 'FP7' is none of BF16",
    PUBLISHED.replace("1,14451", "one,14451"): "rows.csv:2: ep: 'one' is no number",
    PUBLISHED.replace("llama3-8b", "llama9"): "no folder of models has llama9.yaml",
    PUBLISHED.replace("H100", "H99"): "there is no hardware file of H99",
    PUBLISHED.replace("8,1,1,1", "8,3,1,1"): "no mesh of 8 GPUs is so",
}


def validated(tool, rows):
    script = pathlib.Path(__file__).resolve().parents[2] / "tools" / "validate_costs"
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "rows.csv"
        path.write_text(COLUMNS + rows, encoding="utf-8")
        command = [sys.executable, script, "--tool", tool, "--rows", path]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def main():
    tool = sys.argv[1]
    status, said = validated(tool, PUBLISHED)
    assert status == 0 and "1 of 1 within 15 %" in said, said
    for rows, why in REFUSED.items():
        status, said = validated(tool, rows)
        assert status == 1 and why in said and "Traceback" not in said, said
    print("one row is predicted, and", len(REFUSED), "are refused")


main()
