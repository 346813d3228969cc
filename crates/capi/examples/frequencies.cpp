// Prints the five most frequent bytes of files, which are counted on all cores: `frequencies FILE...`.
#include <sakiyomi.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iostream>
#include <numeric>

using Counts = std::array<std::uint64_t, 256>;

int main(int number, char **names) {
    Counts counts{};
    auto count = [](void *state, const sakiyomi_block *block, void *) {
        auto &own = *static_cast<Counts *>(state);
        auto *bytes = static_cast<const unsigned char *>(block->bytes);
        std::for_each(bytes, bytes + block->length, [&own](unsigned char byte) { ++own[byte]; });
        return 0;
    };
    auto add = [](void *into, const void *from, void *) {
        auto &whole = *static_cast<Counts *>(into);
        auto &part = *static_cast<const Counts *>(from);
        std::transform(whole.begin(), whole.end(), part.begin(), whole.begin(), std::plus<>());
    };
    auto files = static_cast<std::size_t>(number - 1);
    if (sakiyomi_blocks_fold(names + 1, files, nullptr, count, add, counts.data(), sizeof counts, nullptr) < 0) {
        std::cerr << sakiyomi_last_error() << '\n';
        return 2;
    }
    std::array<int, 256> bytes;
    std::iota(bytes.begin(), bytes.end(), 0);
    std::stable_sort(bytes.begin(), bytes.end(), [&](int one, int other) { return counts[one] > counts[other]; });
    for (int rank = 0; rank < 5 && counts[bytes[rank]] > 0; rank++)
        std::cout << static_cast<char>(bytes[rank]) << ' ' << counts[bytes[rank]] << '\n';
}
