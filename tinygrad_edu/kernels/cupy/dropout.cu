// A dropout mask of `samples` rows with `each` elements: 0, or `scale` where 32 random bits are not below `threshold`.
// The bits are Philox 4x64-10's (Salmon et al., 2011) under a key of two words, in NumPy's order: sample s has `counts`
// counts of its own, from first * counts + s * counts + 1 on, and each count gives four words, low halves first.

typedef unsigned long long word;

__device__ void philox(word *c, word k0, word k1) {
    for (int round = 0; round < 10; round++) {
        word high0 = __umul64hi(0xD2E7470EE14C6C93ULL, c[0]), low0 = 0xD2E7470EE14C6C93ULL * c[0];
        word high1 = __umul64hi(0xCA5A826395121157ULL, c[2]), low1 = 0xCA5A826395121157ULL * c[2];
        c[0] = high1 ^ c[1] ^ k0;
        c[1] = low1;
        c[2] = high0 ^ c[3] ^ k1;
        c[3] = low0;
        k0 += 0x9E3779B97F4A7C15ULL;
        k1 += 0xBB67AE8584CAA73BULL;
    }
}

template <typename T>
__device__ void keep_mask(T *mask, long long samples, long long each, long long counts, long long first, word k0,
                          word k1, unsigned threshold, T scale) {
    long long threads = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < samples * counts; i += threads) {
        long long sample = i / counts, block = i % counts;
        word c[4] = {(word)((first + sample) * counts + block + 1), 0, 0, 0};
        philox(c, k0, k1);
        for (int j = 0; j < 8 && block * 8 + j < each; j++) {
            unsigned bits = (unsigned)(c[j / 2] >> (j % 2 * 32));
            mask[sample * each + block * 8 + j] = bits >= threshold ? scale : T(0);
        }
    }
}

extern "C" __global__ void keep_mask_float32(float *mask, long long samples, long long each, long long counts,
                                             long long first, unsigned long long k0, unsigned long long k1,
                                             unsigned int threshold, float scale) {
    keep_mask<float>(mask, samples, each, counts, first, k0, k1, threshold, scale);
}

extern "C" __global__ void keep_mask_float64(double *mask, long long samples, long long each, long long counts,
                                             long long first, unsigned long long k0, unsigned long long k1,
                                             unsigned int threshold, double scale) {
    keep_mask<double>(mask, samples, each, counts, first, k0, k1, threshold, scale);
}
