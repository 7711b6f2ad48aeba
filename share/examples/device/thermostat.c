/*
 * The thermostat: see thermostat.h.
 */
#include "thermostat.h"

#define TARGET_LOWEST  50
#define TARGET_HIGHEST 350
#define CODE_LOWEST    16u   /* below: the sensor's wire is cut */
#define CODE_HIGHEST   4080u /* above: it has a short */

/* ---- text ---- */

struct reader {
    const char *at;
};

static void skip_blanks(struct reader *reader)
{
    while (*reader->at == ' ' || *reader->at == '\t')
        reader->at++;
}

static bool take_word(struct reader *reader, const char *word)
{
    const char *at = reader->at;

    while (*word != '\0' && *at == *word) {
        at++;
        word++;
    }
    if (*word != '\0' || (*at != ' ' && *at != '\0'))
        return false;
    reader->at = at;
    skip_blanks(reader);
    return true;
}

static bool is_digit(char character)
{
    return character >= '0' && character <= '9';
}

/* Tenths of a degree: "21", "21.5", "-3". */
static bool take_temperature(struct reader *reader, int *tenths)
{
    bool is_negative = *reader->at == '-';

    if (is_negative)
        reader->at++;
    if (!is_digit(*reader->at))
        return false;
    for (*tenths = 0; is_digit(*reader->at) && *tenths < 1000; reader->at++)
        *tenths = *tenths * 10 + (*reader->at - '0');
    *tenths *= 10;
    if (*reader->at == '.') {
        reader->at++;
        if (!is_digit(*reader->at))
            return false;
        *tenths += *reader->at++ - '0';
    }
    if (is_negative)
        *tenths = -*tenths;
    return true;
}

static bool is_at_end(const struct reader *reader)
{
    return *reader->at == '\0';
}

struct writer {
    char *at;
    size_t left;
};

static void put_character(struct writer *writer, char character)
{
    if (writer->left == 0)
        return;
    *writer->at++ = character;
    writer->left--;
}

static void put_text(struct writer *writer, const char *text)
{
    while (*text != '\0')
        put_character(writer, *text++);
}

static void put_number(struct writer *writer, unsigned number)
{
    if (number >= 10)
        put_number(writer, number / 10);
    put_character(writer, (char)('0' + number % 10));
}

static void put_temperature(struct writer *writer, int tenths)
{
    if (tenths < 0) {
        put_character(writer, '-');
        tenths = -tenths;
    }
    put_number(writer, (unsigned)tenths / 10);
    put_character(writer, '.');
    put_number(writer, (unsigned)tenths % 10);
}

/* ---- commands ---- */

static bool set_target(struct thermostat *thermostat, struct reader *reader)
{
    int tenths;

    if (!take_temperature(reader, &tenths) || tenths < TARGET_LOWEST || tenths > TARGET_HIGHEST)
        return false;
    thermostat->target = tenths;
    return true;
}

static bool set_band(struct thermostat *thermostat, struct reader *reader)
{
    int tenths;

    if (!take_temperature(reader, &tenths) || tenths <= 0 || tenths > 50)
        return false;
    thermostat->band = tenths;
    return true;
}

static bool set_mode(struct thermostat *thermostat, struct reader *reader)
{
    if (take_word(reader, "off"))
        thermostat->mode = MODE_OFF;
    else if (take_word(reader, "heat"))
        thermostat->mode = MODE_HEAT;
    else if (take_word(reader, "cool"))
        thermostat->mode = MODE_COOL;
    else if (take_word(reader, "auto"))
        thermostat->mode = MODE_AUTOMATIC;
    else
        return false;
    return true;
}

bool thermostat_command(struct thermostat *thermostat, const char *line)
{
    struct thermostat changed = *thermostat;
    struct reader reader = {line};
    bool done;

    skip_blanks(&reader);
    if (take_word(&reader, "target"))
        done = set_target(&changed, &reader);
    else if (take_word(&reader, "band"))
        done = set_band(&changed, &reader);
    else
        done = set_mode(&changed, &reader);
    if (!done || !is_at_end(&reader))
        return false;
    *thermostat = changed;
    return true;
}

/* ---- readings ---- */

/* The codes of the sensor at -20, 0, 20, 40 and 60 degrees. */
static const unsigned codes[] = {400, 1100, 2000, 2950, 3700};

#define CODES (sizeof codes / sizeof codes[0])

static int temperature_of(unsigned code)
{
    size_t step = 1;

    while (step < CODES - 1 && code > codes[step])
        step++;
    return (int)(step - 1) * 200 - 200 +
           ((int)code - (int)codes[step - 1]) * 200 / (int)(codes[step] - codes[step - 1]);
}

static int filter(const struct thermostat *thermostat, int tenths)
{
    return thermostat->has_reading ? (thermostat->filtered * 3 + tenths) / 4 : tenths;
}

static enum output choose(const struct thermostat *thermostat)
{
    int above = thermostat->filtered - thermostat->target;
    bool may_heat = thermostat->mode == MODE_HEAT || thermostat->mode == MODE_AUTOMATIC;
    bool may_cool = thermostat->mode == MODE_COOL || thermostat->mode == MODE_AUTOMATIC;

    if (may_heat && above < -thermostat->band)
        return OUTPUT_HEATER;
    if (may_cool && above > thermostat->band)
        return OUTPUT_COOLER;
    if (thermostat->output == OUTPUT_HEATER && may_heat && above < 0)
        return OUTPUT_HEATER;
    if (thermostat->output == OUTPUT_COOLER && may_cool && above > 0)
        return OUTPUT_COOLER;
    return OUTPUT_NONE;
}

static void switch_to(struct thermostat *thermostat, enum output output)
{
    if (thermostat->output == output)
        return;
    thermostat->output = output;
    thermostat->switches++;
}

void thermostat_read(struct thermostat *thermostat, unsigned code)
{
    thermostat->is_broken = code < CODE_LOWEST || code > CODE_HIGHEST;
    if (thermostat->is_broken) {
        switch_to(thermostat, OUTPUT_NONE);
        return;
    }
    thermostat->filtered = filter(thermostat, temperature_of(code));
    thermostat->has_reading = true;
    switch_to(thermostat, choose(thermostat));
}

/* ---- the state ---- */

void thermostat_start(struct thermostat *thermostat)
{
    *thermostat = (struct thermostat){.target = 200, .band = 5};
}

size_t thermostat_describe(const struct thermostat *thermostat, char *text, size_t size)
{
    static const char *const outputs[] = {"idle", "heating", "cooling"};
    struct writer writer = {text, size};

    put_text(&writer, outputs[thermostat->output]);
    if (thermostat->is_broken) {
        put_text(&writer, ", no sensor");
    } else {
        put_text(&writer, " at ");
        put_temperature(&writer, thermostat->filtered);
    }
    put_text(&writer, ", target ");
    put_temperature(&writer, thermostat->target);
    put_text(&writer, ", switched ");
    put_number(&writer, thermostat->switches);
    put_character(&writer, '\n');
    return size - writer.left;
}
