/* Standard normal noise for the targets of a block: xoshiro128++ (Blackman and Vigna 2021) in 16 streams side by side,
 * and the transform of Box and Muller. Every block has streams of its own: who goes through it does not matter. */

struct streams { __m512i word[4]; };

/* The number at this place in the sequence of splitmix64: neighbours have nothing in common. */
static uint64_t splitmix64(uint64_t seed, uint64_t place) {
    uint64_t x = seed + (place + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static struct streams streams_of(uint64_t seed, int64_t block) {
    enum { PLACES = 4 * LANES / 2 }; /* of 64 bits */
    uint64_t bits[PLACES];
    for (int i = 0; i < PLACES; i++) bits[i] = splitmix64(seed, PLACES * (uint64_t)block + i);
    struct streams streams;
    memcpy(&streams, bits, sizeof streams);
    return streams;
}

static __m512i next_bits(struct streams *streams) {
    __m512i *s = streams->word;
    __m512i bits = _mm512_add_epi32(_mm512_rol_epi32(_mm512_add_epi32(s[0], s[3]), 7), s[0]);
    __m512i shifted = _mm512_slli_epi32(s[1], 9);
    s[2] = _mm512_xor_si512(s[2], s[0]);
    s[3] = _mm512_xor_si512(s[3], s[1]);
    s[1] = _mm512_xor_si512(s[1], s[2]);
    s[0] = _mm512_xor_si512(s[0], s[3]);
    s[2] = _mm512_xor_si512(s[2], shifted);
    s[3] = _mm512_rol_epi32(s[3], 11);
    return bits;
}

/* ln x of normal numbers: whole ln 2 + ln(1 + t) with t in [-1/4, 1/2). Near 1, too, it is good to float32. */
static __m512 logarithm(__m512 x) {
    const __m512 one = _mm512_set1_ps(1.0f);
    __m512 part = _mm512_getmant_ps(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_src), whole = _mm512_getexp_ps(x);
    whole = _mm512_mask_add_ps(whole, _mm512_cmp_ps_mask(part, one, _CMP_LT_OQ), whole, one); /* [3/4, 1) was halved */
    __m512 t = _mm512_sub_ps(part, one);
    __m512 series = _mm512_set1_ps(0.05411174148f);
    series = _mm512_fmadd_ps(series, t, _mm512_set1_ps(-0.1207671985f));
    series = _mm512_fmadd_ps(series, t, _mm512_set1_ps(0.1499449760f));
    series = _mm512_fmadd_ps(series, t, _mm512_set1_ps(-0.1682431251f));
    series = _mm512_fmadd_ps(series, t, _mm512_set1_ps(0.1997591257f));
    series = _mm512_fmadd_ps(series, t, _mm512_set1_ps(-0.2499321848f));
    series = _mm512_fmadd_ps(series, t, _mm512_set1_ps(0.3333359361f));
    series = _mm512_fmadd_ps(series, t, _mm512_set1_ps(-0.5000006557f));
    series = _mm512_fmadd_ps(series, t, one);
    return _mm512_fmadd_ps(whole, _mm512_set1_ps(0.693147181f), _mm512_mul_ps(series, t));
}

/* Two independent draws for each stream: a point of the plane by its radius and its angle. */
static void next_normals(struct streams *streams, __m512 *left, __m512 *right) {
    /* All 32 bits make a uniform number in (0, 1], small ones as exactly as others: the radius goes up to 6.8. */
    __m512 uniform = _mm512_cvtepu32_ps(next_bits(streams));
    uniform = _mm512_fmadd_ps(uniform, _mm512_set1_ps(0x1p-32f), _mm512_set1_ps(0x1p-33f));
    __m512 radius = _mm512_sqrt_ps(_mm512_mul_ps(logarithm(uniform), _mm512_set1_ps(-2.0f)));
    /* 30 bits make an angle in the quarter around 0, in [-1, 1) times pi / 4; two choose one of the four quarters. */
    __m512i bits = next_bits(streams);
    __m512 angle = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_srai_epi32(bits, 2)), _mm512_set1_ps(0x1p-29f));
    __m512 square = _mm512_mul_ps(angle, angle);
    __m512 sine = _mm512_set1_ps(-3.595045200e-5f), cosine = _mm512_set1_ps(-3.187278324e-4f);
    sine = _mm512_fmadd_ps(sine, square, _mm512_set1_ps(2.490001032e-3f));
    sine = _mm512_fmadd_ps(sine, square, _mm512_set1_ps(-8.074543625e-2f));
    sine = _mm512_fmadd_ps(sine, square, _mm512_set1_ps(0.7853981853f));
    cosine = _mm512_fmadd_ps(cosine, square, _mm512_set1_ps(1.584968343e-2f));
    cosine = _mm512_fmadd_ps(cosine, square, _mm512_set1_ps(-0.3084241748f));
    cosine = _mm512_fmadd_ps(cosine, square, _mm512_set1_ps(0.9999999404f));
    __m512i sign = _mm512_slli_epi32(bits, 31); /* the lowest bit */
    cosine = _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(_mm512_mul_ps(cosine, radius)), sign));
    sine = _mm512_mul_ps(_mm512_mul_ps(sine, angle), radius);
    __mmask16 turned = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(2));
    *left = _mm512_mask_blend_ps(turned, cosine, sine);
    *right = _mm512_mask_blend_ps(turned, sine, cosine);
}

/* mean + deviation noise, in place of the mean. */
static void add_some(float *mean, const float *deviation, int count, __m512 noise) {
    __mmask16 here = first(count);
    __m512 scale = _mm512_maskz_loadu_ps(here, deviation), sum = _mm512_maskz_loadu_ps(here, mean);
    _mm512_mask_storeu_ps(mean, here, _mm512_fmadd_ps(scale, noise, sum));
}

static void add_noise(float *mean, const float *deviation, int count, uint64_t seed, int64_t block) {
    struct streams streams = streams_of(seed, block);
    for (int i = 0; i < count; i += 2 * LANES) {
        __m512 left, right;
        next_normals(&streams, &left, &right);
        add_some(mean + i, deviation + i, count - i, left);
        if (count - i > LANES) add_some(mean + i + LANES, deviation + i + LANES, count - i - LANES, right);
    }
}
