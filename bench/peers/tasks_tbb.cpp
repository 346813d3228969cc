// Peer of bench/tasks.py: its cases on oneTBB with two threads. Prints for each case its name and the median in
// microseconds, as crates/exec/examples/tasks_beside_rayon.rs does.
//
//     c++ -O3 -o tasks_tbb tasks_tbb.cpp -ltbb && ./tasks_tbb [ROUNDS]
//
// Empty tasks are those of a task_group. The factorizations are flow graphs: a continue_node for each task, an edge for
// each dependency, tiles in place; construction of the graph counts, as it does on the other sides.

#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_group.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace flow = oneapi::tbb::flow;

constexpr int threads = 2;
constexpr int empty_tasks = 1'000'000;

template <int B> struct Tile {
    double at[B][B];
};

template <int B> using Matrix = std::vector<Tile<B>>;

template <int B> Matrix<B> positive_definite(int size) {
    Matrix<B> matrix(size * size);
    const double order = size * B;
    for (int row = 0; row < size; row++)
        for (int column = 0; column < size; column++)
            for (int i = 0; i < B; i++)
                for (int j = 0; j < B; j++) {
                    const double distance = std::abs(double(row * B + i) - double(column * B + j));
                    matrix[row * size + column].at[i][j] = 1 / (1 + distance) + (distance == 0 ? order : 0);
                }
    return matrix;
}

template <int B> void factor(Tile<B> &tile) {
    for (int k = 0; k < B; k++) {
        const double pivot = std::sqrt(tile.at[k][k]);
        tile.at[k][k] = pivot;
        for (int i = k + 1; i < B; i++)
            tile.at[i][k] /= pivot;
        for (int j = k + 1; j < B; j++)
            for (int i = j; i < B; i++)
                tile.at[i][j] -= tile.at[i][k] * tile.at[j][k];
    }
}

template <int B> void solve(const Tile<B> &diagonal, Tile<B> &tile) {
    for (auto &row : tile.at)
        for (int k = 0; k < B; k++) {
            double dot = 0;
            for (int j = 0; j < k; j++)
                dot += row[j] * diagonal.at[k][j];
            row[k] = (row[k] - dot) / diagonal.at[k][k];
        }
}

template <int B> void update(const Tile<B> &left, const Tile<B> &right, Tile<B> &tile) {
    double transposed[B][B];
    for (int k = 0; k < B; k++)
        for (int j = 0; j < B; j++)
            transposed[k][j] = right.at[j][k];
    for (int i = 0; i < B; i++)
        for (int k = 0; k < B; k++)
            for (int j = 0; j < B; j++)
                tile.at[i][j] -= left.at[i][k] * transposed[k][j];
}

template <int B> double cholesky(const Matrix<B> &first, int size) {
    Matrix<B> matrix = first;
    flow::graph graph;
    using Node = flow::continue_node<flow::continue_msg>;
    std::deque<Node> nodes;
    std::vector<Node *> last(size * size, nullptr); // the task that wrote a tile
    std::vector<Node *> roots;
    const auto add = [&](std::initializer_list<Node *> before, auto work) {
        Node &node = nodes.emplace_back(graph, [work](const flow::continue_msg &) { work(); });
        bool is_root = true;
        for (Node *other : before)
            if (other) {
                flow::make_edge(*other, node);
                is_root = false;
            }
        if (is_root)
            roots.push_back(&node);
        return &node;
    };
    const auto tile = [&](int row, int column) -> Tile<B> & { return matrix[row * size + column]; };
    const auto writer = [&](int row, int column) -> Node *& { return last[row * size + column]; };
    for (int k = 0; k < size; k++) {
        writer(k, k) = add({writer(k, k)}, [&tile, k] { factor(tile(k, k)); });
        for (int row = k + 1; row < size; row++)
            writer(row, k) = add({writer(k, k), writer(row, k)}, [&tile, k, row] { solve(tile(k, k), tile(row, k)); });
        for (int row = k + 1; row < size; row++)
            for (int at = k + 1; at <= row; at++)
                writer(row, at) =
                    at == row ? add({writer(row, k), writer(row, at)},
                                    [&tile, k, row, at] { update(tile(row, k), tile(at, k), tile(row, at)); })
                              : add({writer(row, k), writer(at, k), writer(row, at)},
                                    [&tile, k, row, at] { update(tile(row, k), tile(at, k), tile(row, at)); });
    }
    for (Node *root : roots)
        root->try_put(flow::continue_msg());
    graph.wait_for_all();
    double sum = 0;
    for (int row = 0; row < size; row++)
        for (int column = 0; column <= row; column++)
            for (const auto &values : tile(row, column).at)
                for (const double value : values)
                    sum += value;
    return sum;
}

void measure(const char *name, int rounds, const std::function<void()> &work) {
    work();
    std::vector<long> times;
    for (int round = 0; round < rounds; round++) {
        const auto begun = std::chrono::steady_clock::now();
        work();
        const auto took = std::chrono::steady_clock::now() - begun;
        times.push_back(std::chrono::duration_cast<std::chrono::microseconds>(took).count());
    }
    std::sort(times.begin(), times.end());
    std::printf("%s %ld\n", name, times[times.size() / 2]);
}

int main(int count, char **words) {
    const int rounds = count > 1 ? std::atoi(words[1]) : 7;
    oneapi::tbb::global_control limit(oneapi::tbb::global_control::max_allowed_parallelism, threads);
    measure("empty", rounds, [] {
        oneapi::tbb::task_group group;
        for (int task = 0; task < empty_tasks; task++)
            group.run([] {});
        group.wait();
    });
    volatile double sink = 0;
    const auto small = positive_definite<8>(64);
    measure("cholesky_64_x_8", rounds, [&] { sink = cholesky(small, 64); });
    const auto large = positive_definite<64>(16);
    measure("cholesky_16_x_64", rounds, [&] { sink = cholesky(large, 16); });
}
