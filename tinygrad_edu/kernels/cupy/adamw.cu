// One AdamW step over flat arrays of n elements, one pass: each thread takes every T-th element, T threads in all.
// keep1, keep2: how much of the means stays; take1, take2: factors of the gradient; see the NumPy kernel for the rest.

template <typename T>
__device__ void adamw(T *param, const T *grad, T *mean, T *square, long long n, T keep1, T keep2, T take1, T take2,
                      T floor, T size, T decay) {
    long long count = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += count) {
        T g = grad[i] * take2;
        T m = mean[i] * keep1 + grad[i] * take1;
        T v = square[i] * keep2 + g * g;
        mean[i] = m;
        square[i] = v;
        param[i] = param[i] * decay - m / (sqrt(v) + floor) * size;
    }
}

extern "C" __global__ void adamw_float32(float *param, const float *grad, float *mean, float *square, long long n,
                                         float keep1, float keep2, float take1, float take2, float floor, float size,
                                         float decay) {
    adamw<float>(param, grad, mean, square, n, keep1, keep2, take1, take2, floor, size, decay);
}

extern "C" __global__ void adamw_float64(double *param, const double *grad, double *mean, double *square, long long n,
                                         double keep1, double keep2, double take1, double take2, double floor,
                                         double size, double decay) {
    adamw<double>(param, grad, mean, square, n, keep1, keep2, take1, take2, floor, size, decay);
}
