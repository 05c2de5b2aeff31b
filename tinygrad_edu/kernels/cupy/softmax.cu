// Softmax over rows [N, n], a block of threads for each row. Thread t takes the elements t, t + T, t + 2T, ... of the
// T threads; what they found is then brought together in pairs, T/2, T/4, ... apart. T is a power of two, at most 1024.

template <typename T> struct Sum {
    static __device__ T of(T a, T b) { return a + b; }
};

template <typename T> struct Largest {  // NaN wins, as in NumPy
    static __device__ T of(T a, T b) { return a > b || a != a ? a : b; }
};

template <typename T, template <typename> class Both> __device__ T together(T mine, T *room) {
    room[threadIdx.x] = mine;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) room[threadIdx.x] = Both<T>::of(room[threadIdx.x], room[threadIdx.x + half]);
        __syncthreads();
    }
    T all = room[0];
    __syncthreads();  // room may be written to again
    return all;
}

// y = exp(x - max x) / sum exp(x - max x); 0 in a row of minus infinity alone
template <typename T> __device__ void softmax(const T *x, T *y, long long n, T *room) {
    const T *in = x + blockIdx.x * n;
    T *out = y + blockIdx.x * n;
    T top = in[0];
    for (long long i = threadIdx.x; i < n; i += blockDim.x) top = Largest<T>::of(in[i], top);
    top = together<T, Largest>(top, room);
    if (top < 0 && top - top != 0) top = 0;  // minus infinity: its difference to itself is no number
    T total = 0;
    for (long long i = threadIdx.x; i < n; i += blockDim.x) {
        out[i] = exp(in[i] - top);
        total += out[i];
    }
    total = together<T, Sum>(total, room);
    T factor = total == 0 ? T(1) : 1 / total;
    for (long long i = threadIdx.x; i < n; i += blockDim.x) out[i] *= factor;
}

// dx = y (dy - sum dy y). As sum y = 1, every dy may be counted from that of a y above 1/2, whose own dx is then no
// difference of nearly equal numbers.
template <typename T> __device__ void softmax_backward(const T *dy, const T *y, T *dx, long long n, T *room) {
    const T *g = dy + blockIdx.x * n;
    const T *p = y + blockIdx.x * n;
    T *out = dx + blockIdx.x * n;
    T level = 0;
    for (long long i = threadIdx.x; i < n; i += blockDim.x)
        if (p[i] > T(0.5)) level = g[i];
    level = together<T, Sum>(level, room);  // of one thread at most
    T mean = 0;
    for (long long i = threadIdx.x; i < n; i += blockDim.x) mean += (g[i] - level) * p[i];
    mean = together<T, Sum>(mean, room);
    for (long long i = threadIdx.x; i < n; i += blockDim.x) out[i] = p[i] * (g[i] - level - mean);
}

extern "C" __global__ void softmax_float32(const float *x, float *y, long long n) {
    __shared__ float room[1024];
    softmax<float>(x, y, n, room);
}

extern "C" __global__ void softmax_float64(const double *x, double *y, long long n) {
    __shared__ double room[1024];
    softmax<double>(x, y, n, room);
}

extern "C" __global__ void softmax_backward_float32(const float *dy, const float *y, float *dx, long long n) {
    __shared__ float room[1024];
    softmax_backward<float>(dy, y, dx, n, room);
}

extern "C" __global__ void softmax_backward_float64(const double *dy, const double *y, double *dx, long long n) {
    __shared__ double room[1024];
    softmax_backward<double>(dy, y, dx, n, room);
}
