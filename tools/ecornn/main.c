/*
 * ecornn: shows plans, measures, tunes and checks the library.  It uses the public header only.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bench/core/program.h"
#include "bench/core/say.h"
#include "command.h"

const char program_name[] = "ecornn";

static const struct command *const commands[] = {
    &command_info,   &command_plan, &command_bench, &command_tune,
    &command_wisdom, &command_cell, &command_check,
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static int print_help(void)
{
    printf("Usage: ecornn COMMAND [OPTION]... [OPERAND]...\n\n");
    for (int k = 0; k < COMMANDS; k++)
        printf("  %-8s %s\n", commands[k]->name, commands[k]->about);
    printf("\n\"ecornn COMMAND --help\" prints the options, \"man ecornn\" the manual.\n");
    return 0;
}

static int print_command_help(const struct command *command)
{
    printf("Usage: ecornn %s [OPTION]... %s\n%s.\n\n", command->name, command->operands,
           command->about);
    options_print(command);
    if (command->more != NULL)
        printf("\n%s", command->more);
    return 0;
}

static int run(int count, char **words)
{
    const bool help = count > 1 && strcmp(words[1], "--help") == 0,
               version = count > 1 && strcmp(words[1], "--version") == 0;
    if ((help || version) && count > 2) {
        say("%s does not take '%s'", words[1], words[2]);
        return 2;
    }
    if (count < 2 || help)
        return print_help() + 2 * (count < 2);
    if (version)
        return printf("ecornn %s\n", ecornn_version()) < 0;
    for (int k = 0; k < COMMANDS; k++) {
        struct options options;
        if (strcmp(words[1], commands[k]->name) != 0)
            continue;
        if (!options_read(&options, commands[k], count - 2, words + 2))
            return 2;
        if (options.shapes == NULL)
            options.shapes = program.shapes;
        return options.help ? print_command_help(commands[k]) : commands[k]->run(&options);
    }
    say("unknown command '%s'; --help lists the commands", words[1]);
    return 2;
}

/* Output that cannot be written is a failure, too. */
int main(int count, char **words)
{
    const int status = run(count, words);
    if (fflush(stdout) != 0)
        say("cannot write the output: %s", strerror(errno));
    else if (ferror(stdout))
        say("cannot write the output"); /* an earlier error: the reason is unknown */
    else
        return status;
    return 1;
}
