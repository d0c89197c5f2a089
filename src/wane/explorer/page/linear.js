// Linear systems of a chain on a grid: (I − γP) X = columns of the identity.
//
// A step on a grid leads to a neighbour, so P has its entries in a narrow band around the diagonal, whose half-width is
// at most the number of columns of the map. I − γP is strictly diagonally dominant, so that elimination needs no
// pivots: nothing leaves the band, and no digits are lost.

/** A sparse matrix by rows: row i has the entries start[i] … start[i + 1] − 1, with columns in ascending order. */
export class Sparse {
  constructor(size, start, column, value) {
    this.size = size;
    this.start = start;
    this.column = column;
    this.value = value;
  }

  /** Returns the matrix times a vector. */
  times(vector) {
    const { size, start, column, value } = this;
    const result = new Float64Array(size);
    for (let i = 0; i < size; i++) {
      let sum = 0;
      for (let e = start[i]; e < start[i + 1]; e++) sum += value[e] * vector[column[e]];
      result[i] = sum;
    }
    return result;
  }

  /** Returns the largest distance of an entry from the diagonal. */
  bandwidth() {
    let widest = 0;
    for (let i = 0; i < this.size; i++) {
      for (let e = this.start[i]; e < this.start[i + 1]; e++) widest = Math.max(widest, Math.abs(this.column[e] - i));
    }
    return widest;
  }
}

/** Returns L and U of I − γP in one band, row by row: entry (i, j) is band[i · width + j − i + half]. */
export function factor(kernel, discount) {
  const n = kernel.size,
    half = kernel.bandwidth(),
    width = 2 * half + 1;
  const band = new Float64Array(n * width);
  for (let i = 0; i < n; i++) {
    band[i * width + half] = 1;
    for (let e = kernel.start[i]; e < kernel.start[i + 1]; e++) {
      band[i * width + kernel.column[e] - i + half] -= discount * kernel.value[e];
    }
  }
  for (let k = 0; k < n; k++) {
    const pivot = band[k * width + half],
      end = Math.min(half, n - 1 - k);
    for (let below = 1; below <= end; below++) {
      const row = (k + below) * width + half - below;
      const multiple = band[row] / pivot;
      band[row] = multiple;
      if (multiple === 0) continue;
      for (let right = 1; right <= end; right++) band[row + right] -= multiple * band[k * width + half + right];
    }
  }
  return { size: n, half, band };
}

/** Solves for some columns of the identity. Returns X by rows: entry (s, i) is X[s · columns + i]. */
export function solve({ size: n, half, band }, columns) {
  const count = columns.length,
    width = 2 * half + 1,
    x = new Float64Array(n * count);
  columns.forEach((state, i) => {
    x[state * count + i] = 1;
  });
  for (let i = 0; i < n; i++) {
    for (let k = Math.max(0, i - half); k < i; k++) addRow(x, count, i, k, -band[i * width + k - i + half]);
  }
  for (let i = n - 1; i >= 0; i--) {
    for (let k = Math.min(n - 1, i + half); k > i; k--) addRow(x, count, i, k, -band[i * width + k - i + half]);
    const pivot = band[i * width + half];
    for (let c = i * count; c < (i + 1) * count; c++) x[c] /= pivot;
  }
  return x;
}

/** Adds a multiple of row k to row i. */
function addRow(x, count, i, k, multiple) {
  if (multiple === 0) return;
  let target = i * count,
    source = k * count;
  for (const end = target + count; target < end; target++, source++) x[target] += multiple * x[source];
}
