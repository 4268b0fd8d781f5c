/* @ROWS@ x @COLUMNS@ matrix: a product of @FACTORS@ sparse factors with @ENTRIES@ entries.
 *
 * void @_apply(const @_number *x, @_number *y, @_number *scratch);    y = A x
 * void @_adjoint(const @_number *x, @_number *y, @_number *scratch);  y = A^H x
 *
 * @_number is @TYPE@. x, y and scratch must not overlap; scratch has room for @_SCRATCH numbers.
 */
#include <stdint.h>

typedef @TYPE@ @_number;
typedef @INDEX@ @_index;
enum { @_SCRATCH = @SCRATCH@ };

/* Blocks of one shape in a factor, each with rows that read the same columns. */
struct @_blocks {
    int32_t count, height, width;
    uint32_t rows, columns, values; /* where those of the first block begin */
};

static const struct @_blocks @_blocks[] = {@BLOCKS@};
static const @_index @_rows[] = {@ROW_TABLE@};
static const @_index @_columns[] = {@COLUMN_TABLE@};
static const @_number @_values[] = {@VALUES@};

#if @COMPLEX@
static inline @_number @_add(@_number sum, @_number a, @_number b)
{
    sum.re += a.re * b.re - a.im * b.im;
    sum.im += a.re * b.im + a.im * b.re;
    return sum;
}

static inline @_number @_add_conj(@_number sum, @_number a, @_number b)
{
    sum.re += a.re * b.re + a.im * b.im;
    sum.im += a.re * b.im - a.im * b.re;
    return sum;
}
#else
static inline @_number @_add(@_number sum, @_number a, @_number b)
{
    return sum + a * b;
}
#endif
static void @_forward(const struct @_blocks *b, const @_number *x, @_number *y)
{
    const @_index *r = @_rows + b->rows, *c = @_columns + b->columns;
    const @_number *v = @_values + b->values, zero = {0};
    const int32_t h = b->height, w = b->width;
    int32_t n, i, j;
    if (h == 2 && w == 2) { /* butterflies */
        for (n = 0; n < b->count; n++, r += 2, c += 2, v += 4) {
            const @_number s = x[c[0]], t = x[c[1]];
            y[r[0]] = @_add(@_add(zero, v[0], s), v[1], t);
            y[r[1]] = @_add(@_add(zero, v[2], s), v[3], t);
        }
        return;
    }
    for (n = 0; n < b->count; n++, c += w) {
        for (i = 0; i + 4 <= h; i += 4, r += 4, v += 4 * w) {
            @_number s0 = zero, s1 = zero, s2 = zero, s3 = zero;
            for (j = 0; j < w; j++) {
                const @_number t = x[c[j]];
                s0 = @_add(s0, v[j], t);
                s1 = @_add(s1, v[w + j], t);
                s2 = @_add(s2, v[2 * w + j], t);
                s3 = @_add(s3, v[3 * w + j], t);
            }
            y[r[0]] = s0;
            y[r[1]] = s1;
            y[r[2]] = s2;
            y[r[3]] = s3;
        }
        for (; i < h; i++, r++, v += w) {
            @_number s = zero;
            for (j = 0; j < w; j++)
                s = @_add(s, v[j], x[c[j]]);
            y[*r] = s;
        }
    }
}

static void @_backward(const struct @_blocks *b, const @_number *x, @_number *y)
{
    const @_index *r = @_rows + b->rows, *c = @_columns + b->columns;
    const @_number *v = @_values + b->values;
    const int32_t h = b->height, w = b->width;
    int32_t n, i, j;
    if (h == 2 && w == 2) {
        for (n = 0; n < b->count; n++, r += 2, c += 2, v += 4) {
            const @_number s = x[r[0]], t = x[r[1]];
            y[c[0]] = @@CONJ@(@@CONJ@(y[c[0]], v[0], s), v[2], t);
            y[c[1]] = @@CONJ@(@@CONJ@(y[c[1]], v[1], s), v[3], t);
        }
        return;
    }
    for (n = 0; n < b->count; n++, c += w) {
        for (i = 0; i + 4 <= h; i += 4, r += 4, v += 4 * w) {
            const @_number s0 = x[r[0]], s1 = x[r[1]], s2 = x[r[2]], s3 = x[r[3]];
            for (j = 0; j < w; j++) {
                @_number t = @@CONJ@(y[c[j]], v[j], s0);
                t = @@CONJ@(t, v[w + j], s1);
                t = @@CONJ@(t, v[2 * w + j], s2);
                y[c[j]] = @@CONJ@(t, v[3 * w + j], s3);
            }
        }
        for (; i < h; i++, r++, v += w) {
            const @_number s = x[*r];
            for (j = 0; j < w; j++)
                y[c[j]] = @@CONJ@(y[c[j]], v[j], s);
        }
    }
}

static void @_factor(int32_t begin, int32_t end, const @_number *x, @_number *y)
{
    for (; begin < end; begin++)
        @_forward(&@_blocks[begin], x, y);
}

static void @_factor_adjoint(int32_t begin, int32_t end, int32_t size, const @_number *x, @_number *y)
{
    const @_number zero = {0};
    int32_t i;
    for (i = 0; i < size; i++)
        y[i] = zero;
    for (; begin < end; begin++)
        @_backward(&@_blocks[begin], x, y);
}

void @_apply(const @_number *x, @_number *y, @_number *scratch)
{
@APPLY@
}

void @_adjoint(const @_number *x, @_number *y, @_number *scratch)
{
@ADJOINT@
}
