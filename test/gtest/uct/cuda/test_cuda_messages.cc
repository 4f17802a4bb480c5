/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "test_cuda.h"

#include <stdio.h>
#include <string.h>

/*
 * What UCX says during a test.
 */

std::vector<std::string> test_cuda_base::messages;

/* What cuda_ipc has mapped it keeps until the program exits, when the contexts
 * of the tests are gone; and then it says so. */
class quiet_exit : public ::testing::Environment {
    virtual void TearDown()
    {
        ucs_log_push_handler(logger);
    }

    static ucs_log_func_rc_t
    logger(const char *, unsigned, const char *, ucs_log_level_t,
           const ucs_log_component_config_t *, const char *message, va_list ap)
    {
        char text[256];
        va_list copied;

        va_copy(copied, ap);
        vsnprintf(text, sizeof(text), message, copied);
        va_end(copied);
        return (strstr(text, "cuIpcCloseMemHandle") == NULL) ?
                       UCS_LOG_FUNC_RC_CONTINUE :
                       UCS_LOG_FUNC_RC_STOP;
    }
};

static ::testing::Environment *const quiet UCS_V_UNUSED =
        ::testing::AddGlobalTestEnvironment(new quiet_exit());

void test_cuda_base::begin_messages()
{
    messages.clear();
    ucs_log_push_handler(logger);
}

void test_cuda_base::end_messages()
{
    ucs_log_pop_handler();
    if (!HasFailure()) {
        expect_no_other_message();
        return;
    }

    for (size_t i = 0; i < messages.size(); ++i) {
        UCS_TEST_MESSAGE << "< " << messages[i] << " >";
    }
}

void test_cuda_base::expect_message(const std::string &text)
{
    m_expected.push_back(text);
}

void test_cuda_base::allow_messages()
{
    m_messages_allowed = true;
}

size_t test_cuda_base::num_messages(const std::string &text)
{
    size_t num = 0;

    pthread_mutex_lock(&m_logger_mutex);
    for (size_t i = 0; i < messages.size(); ++i) {
        num += messages[i].find(text) != std::string::npos;
    }
    pthread_mutex_unlock(&m_logger_mutex);
    return num;
}

ucs_log_func_rc_t test_cuda_base::logger(const char *, unsigned, const char *,
                                         ucs_log_level_t level,
                                         const ucs_log_component_config_t *,
                                         const char *message, va_list ap)
{
    va_list copied;

    std::string text;

    if (level > UCS_LOG_LEVEL_WARN) {
        return UCS_LOG_FUNC_RC_CONTINUE;
    }

    va_copy(copied, ap);
    text = format_message(message, copied);
    va_end(copied);

    /* UCX sets this attribute for managed memory too, which has none */
    if (text.find("SYNC_MEMOPS") == std::string::npos) {
        pthread_mutex_lock(&m_logger_mutex);
        messages.push_back(text);
        pthread_mutex_unlock(&m_logger_mutex);
    }
    return (level == UCS_LOG_LEVEL_FATAL) ? UCS_LOG_FUNC_RC_CONTINUE :
                                            UCS_LOG_FUNC_RC_STOP;
}

void test_cuda_base::expect_no_other_message()
{
    for (size_t i = 0; i < m_expected.size(); ++i) {
        EXPECT_LE(1u, num_messages(m_expected[i])) << m_expected[i];
    }

    for (size_t i = 0; (i < messages.size()) && !m_messages_allowed; ++i) {
        bool is_expected = false;

        for (size_t j = 0; j < m_expected.size(); ++j) {
            is_expected |= messages[i].find(m_expected[j]) != std::string::npos;
        }
        EXPECT_TRUE(is_expected) << messages[i];
    }
}
