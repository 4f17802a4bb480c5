/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

/*
 * A libFuzzer target: whatever the bytes of a key are, the importer must not
 * crash, hang, leak or read behind the key's end, and a key that a peer has
 * really packed must give the peer's data.
 *
 * It runs on the emulated runtime. Two peers, processes of this same program,
 * export memory with and without a lifetime signal, and a third one has been
 * killed. An input says which fields of its key come from one of theirs (see
 * key_input.h).
 *
 * Run by 'buildlib/run-suites SETTINGS fuzz'. By hand, to repeat one input:
 * UCX_MODULE_DIR is the folder "modules" beside the program; it has the memory
 * hooks and no transport, since the transport is part of this program.
 */

#include "fuzz_peer.h"
#include "guarded_page.h"
#include "key_input.h"

#include "../apps/demo_gpu.h"
#include "../apps/demo_uct.h"

#include <hip/hip_runtime_api.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

/* The transport that is linked to this program */
extern "C" struct uct_component uct_rocm_ipc_component;

namespace fuzz {

namespace {

constexpr size_t LOCAL_SIZE = 4096;

/* Ends the run with an error for libFuzzer to report */
[[noreturn]] void fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("\nfuzz: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

/* Completion of a copy */
struct completion {
    uct_completion_t super = {};
    bool             done  = false;

    completion()
    {
        super.count  = 1;
        super.status = UCS_OK;
        super.func   = [](uct_completion_t *comp) {
            reinterpret_cast<completion*>(comp)->done = true;
        };
    }
};

/* An endpoint to a peer */
class endpoint {
public:
    endpoint(const demo::rocm_ipc &transport, const peer &remote)
    {
        uct_ep_params_t params = {};

        params.field_mask = UCT_EP_PARAM_FIELD_IFACE |
                            UCT_EP_PARAM_FIELD_DEV_ADDR |
                            UCT_EP_PARAM_FIELD_IFACE_ADDR;
        params.iface      = transport.iface();
        params.dev_addr   = reinterpret_cast<const uct_device_addr_t*>(
                remote.device_address().data());
        params.iface_addr = reinterpret_cast<const uct_iface_addr_t*>(
                remote.iface_address().data());
        if (uct_ep_create(&params, &m_ep) != UCS_OK) {
            fail("uct_ep_create failed");
        }
    }

    endpoint(const endpoint&)            = delete;
    endpoint &operator=(const endpoint&) = delete;

    ~endpoint()
    {
        uct_ep_destroy(m_ep);
    }

    uct_ep_h get() const
    {
        return m_ep;
    }

private:
    uct_ep_h m_ep;
};

/* The importer, and all that it takes to try a key */
class importer {
public:
    importer() : m_with_signal(true), m_without_signal(false), m_killed(true)
    {
        m_killed.kill();
        for (const peer *from :
             {&m_with_signal, &m_without_signal, &m_killed}) {
            m_keys.insert(m_keys.end(), from->keys().begin(),
                          from->keys().end());
        }

        demo::open_gpu();
        m_transport = std::make_unique<demo::rocm_ipc>();
        if (m_transport->component() != &uct_rocm_ipc_component) {
            throw demo::error("UCX has found another rocm_ipc transport than"
                              " the one to be tried: see UCX_MODULE_DIR");
        }

        m_local = std::make_unique<demo::gpu_buffer>(LOCAL_SIZE);
        connect();
    }

    const std::vector<live_key> &keys() const
    {
        return m_keys;
    }

    void try_input(const key_input &input)
    {
        const std::string key = input.make_key(m_keys);

        try_key(input, key);
        if (input.operations & OPERATION_SECOND_KEY) {
            try_key(input, key);
        }
    }

private:
    void connect()
    {
        m_endpoint = std::make_unique<endpoint>(*m_transport, m_with_signal);
    }

    void try_key(const key_input &input, const std::string &key)
    {
        const void *const buffer = m_page.put(key.data(), promised_length(key));
        uct_rkey_bundle_t rkey;
        const ucs_status_t status = uct_rkey_unpack(m_transport->component(),
                                                    buffer, &rkey);

        if (input.is_live() && (status != UCS_OK)) {
            fail("a peer's key is refused: %s", ucs_status_string(status));
        } else if (status != UCS_OK) {
            return;
        }

        if (input.operations & OPERATION_GET) {
            get(input, key, rkey);
        }

        if (input.operations & OPERATION_DISCONNECT) {
            m_endpoint.reset();
            connect();
        }

        if (input.operations & OPERATION_POINTER) {
            map(input, key, rkey);
        }

        if (uct_rkey_release(m_transport->component(), &rkey) != UCS_OK) {
            fail("uct_rkey_release failed");
        }
    }

    /* What is known of the outcome: all of it for a key that a peer has packed,
     * and that nothing outside of a key is reached for any other */
    void check(const key_input &input, const std::string &key,
               ucs_status_t status, size_t length, const uint8_t *bytes) const
    {
        const uint64_t size  = read_field(key, LENGTH);
        const bool is_inside = (input.offset < size) &&
                               (length <= size - input.offset);
        const live_key &live = input.source(m_keys);

        if ((status == UCS_OK) && !is_inside) {
            fail("offset %lu length %zu is outside of the key",
                 static_cast<unsigned long>(input.offset), length);
        }

        if (!input.is_live()) {
            return;
        }

        if ((status == UCS_OK) != (is_inside && (live.end == fate::alive))) {
            fail("peer's key %u, offset %lu length %zu: %s",
                 static_cast<unsigned>(input.which % m_keys.size()),
                 static_cast<unsigned long>(input.offset), length,
                 ucs_status_string(status));
        }

        for (size_t i = 0; (status == UCS_OK) && (i < length); ++i) {
            if (bytes[i] != live.content) {
                fail("byte %zu is 0x%x, not the peer's 0x%x", i, bytes[i],
                     live.content);
            }
        }
    }

    void get(const key_input &input, const std::string &key,
             const uct_rkey_bundle_t &rkey)
    {
        const uint64_t address = read_field(key, ADDRESS) + input.offset;
        uint8_t bytes[UINT8_MAX];
        completion comp;
        uct_iov_t iov = {};

        if (input.length == 0) {
            return; /* Reaches nothing, so that nothing is known of it */
        }

        iov.buffer = m_local->address();
        iov.length = input.length;
        iov.memh   = UCT_MEM_HANDLE_NULL;
        iov.count  = 1;

        ucs_status_t status = uct_ep_get_zcopy(m_endpoint->get(), &iov, 1,
                                               address, rkey.rkey, &comp.super);
        if (status == UCS_INPROGRESS) {
            while (!comp.done) {
                uct_worker_progress(m_transport->worker());
            }
            status = comp.super.status;
        }

        if ((status == UCS_OK) &&
            (hipMemcpy(bytes, m_local->address(), input.length,
                       hipMemcpyDeviceToHost) != hipSuccess)) {
            fail("hipMemcpy failed");
        }

        check(input, key, status, input.length, bytes);
    }

    void map(const key_input &input, const std::string &key,
             uct_rkey_bundle_t &rkey)
    {
        const uint64_t address = read_field(key, ADDRESS) + input.offset;
        void *pointer          = nullptr;
        const ucs_status_t status = uct_rkey_ptr(m_transport->component(),
                                                 &rkey, address, &pointer);
        uint8_t byte = 0;

        if (status == UCS_OK) {
            byte = *static_cast<volatile uint8_t*>(pointer);
        }

        check(input, key, status, 1, &byte);
    }

    peer                              m_with_signal;
    peer                              m_without_signal;
    peer                              m_killed;
    std::vector<live_key>             m_keys;
    std::unique_ptr<demo::rocm_ipc>   m_transport;
    std::unique_ptr<demo::gpu_buffer> m_local;
    std::unique_ptr<endpoint>         m_endpoint;
    guarded_page                      m_page;
};

/* Never destroyed: what a key has mapped stays to the end of the process */
importer *the_importer;

/* The folder of the corpus, the first argument that is not an option. It is
 * filled before libFuzzer reads it. */
void write_seeds(const std::filesystem::path &folder)
{
    for (const auto &[name, bytes] : seeds(the_importer->keys())) {
        std::ofstream file(folder / name, std::ios::binary);

        if (!(file << bytes).flush()) {
            throw demo::error("cannot write a seed to " + folder.string());
        }
    }
}

/* The seeds are tried here, too: a run in which they do not give the peers'
 * data would prove nothing */
void try_seeds()
{
    for (const auto &[name, bytes] : seeds(the_importer->keys())) {
        the_importer->try_input(
                key_input(reinterpret_cast<const uint8_t*>(bytes.data()),
                          bytes.size()));
    }
}

} // namespace

} // namespace fuzz

extern "C" int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    if (fuzz::is_peer()) {
        fuzz::peer_main();
    }

    try {
        fuzz::the_importer = new fuzz::importer();
        fuzz::try_seeds();
        for (int i = 1; i < *argc; ++i) {
            if (std::filesystem::is_directory((*argv)[i])) {
                fuzz::write_seeds((*argv)[i]);
                break;
            }
        }
    } catch (const std::exception &e) {
        fprintf(stderr, "fuzz: %s\n", e.what());
        exit(EXIT_FAILURE);
    }

    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz::the_importer->try_input(fuzz::key_input(data, size));
    return 0;
}
