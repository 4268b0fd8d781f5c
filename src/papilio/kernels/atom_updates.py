"""Updates of atoms from signals and their sparse codes.

Signals, residuals and atoms are rows here. Codes are those of a csc_array with one column per signal:
``pointers``, ``indices`` (of atoms) and ``values``.
"""

import numpy as np

from ..typing import Array
from .cache import kernel

compiled = kernel(nogil=True, fastmath={"contract", "nsz", "reassoc"})


@compiled
def subtract_codes(
    residuals: Array, atoms: Array, pointers: Array, indices: Array, values: Array, start: int, stop: int
) -> None:
    """x − Dγ for the signals from ``start`` to ``stop``, in place."""
    for s in range(start, stop):
        row = residuals[s]
        for e in range(pointers[s], pointers[s + 1]):
            atom, value = atoms[indices[e]], values[e]
            for k in range(row.size):
                row[k] -= value * atom[k]


@compiled
def add_energies(
    signals: Array,
    atoms: Array,
    pointers: Array,
    indices: Array,
    values: Array,
    energies: Array,
    errors: Array,
    start: int,
    stop: int,
) -> None:
    """‖x‖² and ‖x − Dγ‖² of the signals from ``start`` to ``stop``, in double precision."""
    row = np.empty(signals.shape[1], signals.dtype)
    for s in range(start, stop):
        energy, error = 0.0, 0.0
        for k in range(row.size):
            row[k] = signals[s, k]
            real, imag = np.float64(row[k].real), np.float64(row[k].imag)
            energy += real * real + imag * imag
        for e in range(pointers[s], pointers[s + 1]):
            atom, value = atoms[indices[e]], values[e]
            for k in range(row.size):
                row[k] -= value * atom[k]
        for k in range(row.size):
            real, imag = np.float64(row[k].real), np.float64(row[k].imag)
            error += real * real + imag * imag
        energies[s], errors[s] = energy, error


@compiled
def group_by_atom(pointers: Array, indices: Array, starts: Array, entries: Array, owners: Array) -> None:
    """Where each atom is used: ``entries`` of the codes and the signals that own them, atom after atom."""
    starts[:] = 0
    for e in range(indices.size):
        starts[indices[e] + 1] += 1
    for j in range(starts.size - 1):
        starts[j + 1] += starts[j]
    place = starts[:-1].copy()
    for s in range(pointers.size - 1):
        for e in range(pointers[s], pointers[s + 1]):
            j = indices[e]
            entries[place[j]] = e
            owners[place[j]] = s
            place[j] += 1


@compiled
def direction_of(
    atom: Array, residuals: Array, values: Array, entries: Array, owners: Array, result: Array
) -> float:
    """E gᴴ, where E are the residuals of an atom's signals without the atom, and g its coefficients; returns ‖g‖².

    E = R + d g, so that E gᴴ = R gᴴ + ‖g‖² d.
    """
    energy = 0.0
    for k in range(result.size):
        result[k] = 0
    for i in range(entries.size):
        row, value = residuals[owners[i]], np.conj(values[entries[i]])
        energy += value.real * value.real + value.imag * value.imag
        for k in range(result.size):
            result[k] += row[k] * value
    for k in range(result.size):
        result[k] += energy * atom[k]
    return energy


@compiled
def exchange_atom(
    atom: Array, new: Array, residuals: Array, values: Array, entries: Array, owners: Array, positive: bool
) -> None:
    """Put ``new``, of unit norm, in the place of ``atom``: g = newᴴE, and the residuals follow.

    With ``positive``, for real data, g = max(newᵀE, 0).
    """
    along = np.conj(new[0]) * 0
    for k in range(new.size):
        along += np.conj(new[k]) * atom[k]
    for i in range(entries.size):
        row, old_value = residuals[owners[i]], values[entries[i]]
        value = along * old_value
        for k in range(row.size):
            value += np.conj(new[k]) * row[k]
        if positive and value.real < 0:
            value *= 0
        for k in range(row.size):
            row[k] += old_value * atom[k] - value * new[k]
        values[entries[i]] = value
    for k in range(new.size):
        atom[k] = new[k]


@compiled
def update_atoms(
    atoms: Array, residuals: Array, values: Array, starts: Array, entries: Array, owners: Array, positive: bool
) -> None:
    """Approximate K-SVD's update of all atoms in turn: d = E gᴴ/‖E gᴴ‖, g = dᴴE (Rubinstein 2008).

    With ``positive``, for real data, g = max(dᵀE, 0).
    """
    direction = np.empty(atoms.shape[1], atoms.dtype)
    for j in range(atoms.shape[0]):
        own_entries, own_owners = entries[starts[j] : starts[j + 1]], owners[starts[j] : starts[j + 1]]
        direction_of(atoms[j], residuals, values, own_entries, own_owners, direction)
        square = 0.0
        for k in range(direction.size):
            square += direction[k].real * direction[k].real + direction[k].imag * direction[k].imag
        if square > 0:
            shrink = 1 / np.sqrt(square)
            for k in range(direction.size):
                direction[k] *= shrink
            exchange_atom(atoms[j], direction, residuals, values, own_entries, own_owners, positive)


@compiled
def descend_atoms(atoms: Array, gram: Array, cross: Array) -> None:
    """Least squares in one atom after the other on moments: d_j ∝ b_j − Σ_{i≠j} a_ij d_i (Mairal 2010).

    ``gram`` is A = ΓΓᴴ, and the rows of ``cross`` are the columns of B = XΓᴴ.
    """
    direction = np.empty(atoms.shape[1], cross.dtype)
    for j in range(atoms.shape[0]):
        if gram[j, j].real <= 0:
            continue
        for k in range(direction.size):  # numba compiles five times as long where it has to check shapes
            direction[k] = cross[j, k]
        for i in range(atoms.shape[0]):
            weight = gram[i, j]
            if weight != 0 and i != j:
                for k in range(direction.size):
                    direction[k] -= weight * atoms[i, k]
        square = 0.0
        for k in range(direction.size):
            square += direction[k].real * direction[k].real + direction[k].imag * direction[k].imag
        if square > 0:
            shrink = 1 / np.sqrt(square)
            for k in range(direction.size):
                atoms[j, k] = direction[k] * shrink


@compiled
def add_moments(
    signals: Array,
    pointers: Array,
    indices: Array,
    values: Array,
    gram: Array,
    cross: Array,
    start: int,
    stop: int,
) -> None:
    """Add signals, from ``start`` to ``stop``, to A = ΓΓᴴ and to the rows of ``cross``, the columns of B = XΓᴴ.

    Of A, each pair of different atoms is added in one of its two places only.
    """
    for s in range(start, stop):
        row = signals[s]
        for e in range(pointers[s], pointers[s + 1]):
            i, value = indices[e], values[e]
            weight = np.conj(value)
            target = cross[i]
            for k in range(row.size):
                target[k] += row[k] * weight
            for f in range(pointers[s], e + 1):
                gram[indices[f], i] += values[f] * weight
