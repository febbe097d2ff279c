/*
 * ecornn: shows plans, measures, tunes and checks the library.  It uses the public header only.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bench/core/program.h"
#include "bench/core/say.h"
#include "bench/core/system.h"
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

static const struct command *find(const char *name)
{
    for (int k = 0; k < COMMANDS; k++)
        if (strcmp(commands[k]->name, name) == 0)
            return commands[k];
    say("unknown command '%s'; --help lists the commands", name);
    return NULL;
}

static int print_command_help(const struct command *command)
{
    if (command == NULL)
        return 2;
    printf("Usage: ecornn %s [OPTION]... %s\n%s.\n\n", command->name, command->operands,
           command->about);
    options_print(command);
    if (command->more != NULL)
        printf("\n%s", command->more);
    return 0;
}

static int run(int count, char **words)
{
    struct options options;
    const char *const first = count > 1 ? words[1] : "help";
    const bool help = strcmp(first, "help") == 0 || strcmp(first, "--help") == 0,
               version = strcmp(first, "--version") == 0;
    if (count > (help ? 3 : 2) && (help || version)) {
        say("%s does not take '%s'", first, words[help ? 3 : 2]);
        return 2;
    }
    if (help)
        return count > 2 ? print_command_help(find(words[2])) : print_help() + 2 * (count < 2);
    if (version)
        return printf("ecornn %s\n", ecornn_version()) < 0;
    const struct command *const command = find(first);
    if (command == NULL || !options_read(&options, command, count - 2, words + 2))
        return 2;
    if (options.shapes == NULL)
        options.shapes = program.shapes;
    return options.help ? print_command_help(command) : command->run(&options);
}

/* Output that cannot be written is a failure, too. */
int main(int count, char **words)
{
    system_fill_standard_files();
    const int status = run(count, words);
    if (fflush(stdout) != 0)
        say("cannot write the output: %s", strerror(errno));
    else if (ferror(stdout))
        say("cannot write the output"); /* an earlier error: the reason is unknown */
    else
        return status;
    return 1;
}
