// Counts the words of files by tasks with lambdas: one reads, one counts for each file, one adds up: `words FILE...`.
#include <sakiyomi.h>

#include <cstdint>
#include <exception>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Closing {
    void operator()(sakiyomi_executor *executor) const { sakiyomi_executor_close(executor); }
    void operator()(sakiyomi_task *task) const { sakiyomi_task_release(task); }
};
using Executor = std::unique_ptr<sakiyomi_executor, Closing>;
using Task = std::unique_ptr<sakiyomi_task, Closing>;
using Tasks = std::vector<Task>;

/// Makes a task that calls `function` with the outputs of `inputs`, which are of type `In`, and returns an output.
template <class In, class Out>
Task spawn(sakiyomi_tasks *tasks, const std::string &name, int lane, const Tasks &inputs,
           std::function<Out(const std::vector<const In *> &)> function) {
    using Function = decltype(function);
    sakiyomi_task_options options{};
    options.size = sizeof options;
    options.name = name.c_str();
    options.lane = lane;
    options.destroy_context = [](void *object) { delete static_cast<Function *>(object); };
    options.destroy_output = [](void *object) { delete static_cast<Out *>(object); };
    std::vector<const sakiyomi_task *> pointers;
    for (auto &input : inputs)
        pointers.push_back(input.get());
    auto run = [](const sakiyomi_tasks *, void *const *given, std::size_t count, void *context, void **output) {
        try {
            std::vector<const In *> values;
            for (std::size_t index = 0; index < count; index++)
                values.push_back(static_cast<const In *>(given[index]));
            *output = new Out((*static_cast<Function *>(context))(values));
            return 0;
        } catch (const std::exception &) {
            // No exception may leave the function.
            return 1;
        }
    };
    auto context = std::make_unique<Function>(std::move(function));
    sakiyomi_task *task = nullptr;
    if (sakiyomi_tasks_spawn(tasks, &options, pointers.data(), pointers.size(), run, context.get(), &task) == 0)
        context.release();
    return Task(task);
}

std::string content(const char *name) {
    std::ifstream file(name);
    file.exceptions(std::ios::failbit | std::ios::badbit);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::uint64_t words(const std::string &text) {
    std::istringstream stream(text);
    return std::distance(std::istream_iterator<std::string>(stream), {});
}

} // namespace

int main(int count, char **names) {
    sakiyomi_executor *started;
    if (sakiyomi_executor_start(nullptr, &started) < 0) {
        std::cerr << sakiyomi_last_error() << '\n';
        return 2;
    }
    Executor executor(started);
    sakiyomi_tasks *tasks;
    sakiyomi_tasks_start(executor.get(), &tasks);
    Tasks counts;
    for (int index = 1; index < count; index++) {
        const char *name = names[index];
        Tasks read;
        read.push_back(spawn<void, std::string>(tasks, name, SAKIYOMI_LANE_IO, {}, [name](auto &) { return content(name); }));
        counts.push_back(spawn<std::string, std::uint64_t>(tasks, "count", SAKIYOMI_LANE_COMPUTE, read,
                                                           [](auto &texts) { return words(*texts[0]); }));
    }
    Task sum = spawn<std::uint64_t, std::uint64_t>(tasks, "sum", SAKIYOMI_LANE_COMPUTE, counts, [](auto &numbers) {
        std::uint64_t total = 0;
        for (auto *number : numbers)
            total += *number;
        return total;
    });
    void *total;
    int end = sakiyomi_tasks_wait(tasks, sum.get(), &total);
    if (end == 0)
        std::cout << *static_cast<std::uint64_t *>(total) << '\n';
    else
        std::cerr << sakiyomi_last_error() << '\n';
    sakiyomi_tasks_finish(tasks);
    return end == 0 ? 0 : 2;
}
