"""Claims about denoising with fast dictionaries, and what the table says."""

from pathlib import Path
from typing import Any

import numpy as np

from ..claims import Claim, claims_table, filled_page, made_by, markdown_table, read_meta, verdict
from ..tables import Row, read_table, write_text
from .averages import Results
from .run import DCT, FIXED, KSVD, PAPILIO, TARGET, Case

_STRONG = (30, 50)  # noise levels of the claims
_COLUMNS = ("learning_seconds", "denoising_seconds")
_NEAR, _ABOVE_DCT = 0.1, 0.3  # dB


def write(folder: Path) -> list[Path]:
    """Write claims.md from the tables in ``folder``."""
    results = Results(read_table(folder / "table.csv"))
    text = page(results, read_table(folder / "times.csv"), read_meta(folder))
    return [write_text(folder / "claims.md", text)]


def page(results: Results, times: list[Row], meta: dict[str, Any]) -> str:
    """The page, as markdown."""
    return filled_page(
        "denoising",
        preset=meta["preset"],
        images=f"{len(results.images)} image{'s' * (len(results.images) > 1)} ({', '.join(results.images)})",
        made_by=made_by(meta),
        claims=claims_table([*_followup(results), *_own(results)], "Claim"),
        means="\n\n".join(_means(results, atoms) for atoms in results.atoms()),
        fixed=_fixed_table(results),
        times=_times_table(times),
    )


def _followup(results: Results) -> list[Claim]:
    """Factorized dictionaries win if the noise is strong, having less freedom to learn it, and lose otherwise."""

    def claim(text: str, sigmas: list[int], sign: int) -> Claim:
        gains = {
            (sigma, atoms): np.mean(results.gains(sigma, Case(FIXED, atoms, PAPILIO), Case(FIXED, atoms, KSVD)))
            for sigma in sigmas
            for atoms in sizes
        }
        listed = (
            f"σ = {sigma}: " + ", ".join(f"{gains[sigma, atoms]:+.2f} dB ({atoms})" for atoms in sizes)
            for sigma in sigmas
        )
        return Claim(text, verdict(all(sign * gain > 0 for gain in gains.values())), "; ".join(listed))

    sizes = results.atoms(FIXED)
    strong = [sigma for sigma in results.sigmas if sigma in _STRONG]
    levels = " and ".join(map(str, strong))
    better = f"At σ = {levels}, factorized dictionaries denoise better than K-SVD's."
    low = claim("At low noise they do worse.", results.sigmas[:1], -1)
    return [claim(better, strong, 1), low] if strong else [low]


def _own(results: Results) -> list[Claim]:
    """How near papilio at its largest complexity is to K-SVD, and how far above the DCT."""
    sizes = results.atoms()
    atoms = 256 if 256 in sizes else sizes[-1]
    complexity = results.complexities(atoms)[-1]
    ours = Case(TARGET, atoms, PAPILIO, complexity)
    claims = []
    for sigma in (sigma for sigma in results.sigmas if sigma in _STRONG):
        dense, dct = (results.gains(sigma, ours, Case(TARGET, atoms, name)) for name in (KSVD, DCT))
        above = sigma == max(_STRONG)
        claims += [
            Claim(
                f"At σ = {sigma}, papilio with {atoms} atoms and complexity {complexity} is "
                + ("above K-SVD." if above else f"within {_NEAR} dB of K-SVD."),
                verdict(float(np.mean(dense)) > (0.0 if above else -_NEAR)),
                _gain(dense),
            ),
            Claim(
                f"At σ = {sigma}, it is at least {_ABOVE_DCT} dB above the redundant DCT.",
                verdict(float(np.mean(dct)) >= _ABOVE_DCT),
                _gain(dct),
            ),
        ]
    return claims


def _gain(gains: list[float]) -> str:
    won = sum(gain > 0 for gain in gains)
    span = f"from {min(gains):+.2f} to {max(gains):+.2f}"
    return f"{np.mean(gains):+.3f} dB on average, {span}; above in {won} of {len(gains)}"


def _means(results: Results, atoms: int) -> str:
    """PSNR and SSIM of all dictionaries of one size, against the noise."""
    cases = [case for case in results.cases if (case.coding, case.atoms) == (TARGET, atoms)]
    rows = [
        (f"{PAPILIO}, {case.complexity}" if case.method == PAPILIO else case.method, *_scores(results, case))
        for case in cases
    ]
    table = markdown_table(("dictionary", "complexity", *_levels(results)), rows, "lr")
    return f"## {atoms} atoms: PSNR in dB / SSIM\n\n{table}"


def _fixed_table(results: Results) -> str:
    rows = [
        (str(case.atoms), "factorized" if case.method == PAPILIO else case.method, *_scores(results, case))
        for case in results.cases
        if case.coding == FIXED
    ]
    return markdown_table(("atoms", "dictionary", "complexity", *_levels(results)), rows, "rlr")


def _levels(results: Results) -> list[str]:
    return [f"σ = {sigma}" for sigma in results.sigmas]


def _scores(results: Results, case: Case) -> list[str]:
    """The complexity of a dictionary, then PSNR and SSIM at each noise level."""
    complexity = results.mean(results.sigmas[0], case, "relative_complexity")
    pairs = ([results.mean(sigma, case, column) for column in ("psnr", "ssim")] for sigma in results.sigmas)
    return [f"{complexity:.3f}", *(f"{psnr:.2f} / {ssim:.3f}" for psnr, ssim in pairs)]


def _times_table(times: list[Row]) -> str:
    groups: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in times:
        groups.setdefault((row["coding"], row["atoms"], row["method"], row["complexity"]), []).append(row)
    rows = [
        (*key, *(f"{np.mean([float(row[column]) for row in group]):.2f}" for column in _COLUMNS))
        for key, group in groups.items()
    ]
    return markdown_table(("coding", "atoms", "method", "limit", "learning", "denoising"), rows, "lrlr")
