import { basename } from 'node:path';
import { Argument, Command, CommanderError, Option } from 'commander';
import { CommandError } from '../commands/terminal.ts';
import type { PluginOptions } from './cluster.ts';
import { complete, completer, completionScript, shells } from './completion.ts';
import { events, type EventsOptions } from './events.ts';
import { list } from './list.ts';
import { login } from './login.ts';
import { open } from './open.ts';
import { pause, remove, resume } from './power.ts';
import { quota } from './quota.ts';
import { start, type StartOptions } from './start.ts';
import { answer, sayTo, type AnswerOptions } from './talk.ts';
import { outputs, print, say, UsageError } from './terminal.ts';
import { why } from './why.ts';

const exitCodes = { error: 1, usage: 2 } as const;

const inContext = (command: Command): Command =>
  command
    .option('--kubeconfig <file>', 'by default $KUBECONFIG, ~/.kube/config, or the pod')
    .option('--context <name>', 'of the kubeconfig; by default the current one');
const inCluster = (command: Command): Command =>
  inContext(command).option('-n, --namespace <name>', 'by default that of the context');
const withOutput = (command: Command): Command =>
  inCluster(command).addOption(
    new Option('-o, --output <format>', 'another form').choices([...outputs]),
  );
const everywhere = (command: Command): Command =>
  withOutput(command).option('-A, --all-namespaces', 'of all namespaces');
const atServer = (command: Command): Command =>
  command.option(
    '--server <url>',
    'of the gateway; by default $CONVERSATION_OPERATOR_SERVER or that of the login',
  );

/** The commands. `<name>` is the name or id of a conversation, or the beginning of one. */
export function pluginProgram(version: string): Command {
  const program = new Command('kubectl conversations')
    .description('start, follow and explain conversations of software agents')
    .version(version)
    .enablePositionalOptions()
    .exitOverride()
    .showHelpAfterError('(--help shows what is possible)');
  program.configureOutput({ writeErr: (text) => say(text.trimEnd()) });
  const command = (usage: string, description: string): Command =>
    program.command(usage).description(description);

  withOutput(command('start', 'start a conversation'))
    .option('-m, --message <text>', 'the first message')
    .option('-f, --file <file>', 'a file with the first message; - for standard input')
    .option('--repo <owner/name>', 'the repository to clone')
    .option('--branch <name>', 'its branch or tag')
    .option('--template <name>', 'the SandboxTemplate; by default default')
    .option('--title <text>', 'by default the agent gives one')
    .option('--owner <name>', 'by default that of the login, or of the context')
    .option('--follow', 'show what happens, until a person is needed or the run is over')
    .action((options: StartOptions) => start(options));

  everywhere(command('list', 'list conversations, those that need you first'))
    .option('--owner <name>', 'by default of all owners')
    .action((options: PluginOptions) => list(options));

  withOutput(command('why <name>', 'explain the state of a conversation, and what to do')).action(
    (name: string, options: PluginOptions) => why(name, options),
  );

  atServer(withOutput(command('events <name>', 'what the agent said and did')))
    .option('-f, --follow', 'also what comes')
    .action((name: string, options: EventsOptions) => events(name, options));

  inCluster(command('say <name> <text>', 'send a message to the agent')).action(
    (name: string, text: string, options: PluginOptions) => sayTo(name, text, options),
  );

  for (const decision of ['approve', 'reject'] as const) {
    const answering = inCluster(
      command(`${decision} <name>`, `show what the agent asks, and ${decision} it`),
    ).option('--yes', 'without a question');
    if (decision === 'approve') answering.option('--option <id>', 'one of the options shown');
    else answering.option('--reason <text>', 'why; the model reads it');
    answering.action((name: string, options: AnswerOptions) => answer(name, decision, options));
  }

  inCluster(command('pause <name>', 'pause the sandbox; its files stay')).action(
    (name: string, options: PluginOptions) => pause(name, options),
  );
  inCluster(command('resume <name>', 'resume the sandbox')).action(
    (name: string, options: PluginOptions) => resume(name, options),
  );
  inCluster(command('delete <name>', 'delete a conversation, its sandbox and its files'))
    .option('--yes', 'without a question')
    .action((name: string, options: PluginOptions & { readonly yes?: boolean }) =>
      remove(name, options),
    );

  everywhere(command('quota', 'how much may run at once, and what one more start would do'))
    .option('--owner <name>', 'by default that of the login, or of the context; else all quotas')
    .action((options: PluginOptions) => quota(options));

  atServer(inCluster(command('open <name>', "print and open the conversation's page")))
    .option('--no-browser', 'only print the address')
    .action((name: string, options: PluginOptions & { readonly browser?: boolean }) =>
      open(name, options),
    );

  inContext(command('login', 'get a key of the gateway, by a code that you enter on its page'))
    .requiredOption('--server <url>', 'of the gateway')
    .option('--no-browser', 'only print the address')
    .action((options: PluginOptions & { readonly server: string; readonly browser?: boolean }) =>
      login(options),
    );

  command('completion', 'print the completion of a shell')
    .addArgument(new Argument('<shell>').choices([...shells]))
    .action((shell: (typeof shells)[number]) => print(completionScript(shell)));

  program
    .command('__complete [words...]', { hidden: true })
    .allowUnknownOption()
    .helpOption(false)
    .passThroughOptions()
    .action((words: readonly string[]) => complete(program, words));
  return program;
}

/** Runs the command of the arguments. Exit code 0: done; 1: an error; 2: wrong arguments. */
export async function runPlugin(version: string, argv = process.argv): Promise<void> {
  // The reader of a pipe, such as `head`, may end first.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    process.exit(0);
  });
  const program = pluginProgram(version);
  const [, file = '', ...words] = argv;
  try {
    if (basename(file) === completer) await complete(program, words);
    else await program.parseAsync(words, { from: 'user' });
  } catch (error) {
    // Commander has printed its own messages.
    if (error instanceof CommanderError)
      process.exitCode = error.exitCode === 0 ? 0 : exitCodes.usage;
    else {
      const isUsage = error instanceof UsageError;
      say(textOf(error));
      process.exitCode = isUsage ? exitCodes.usage : exitCodes.error;
    }
  }
}

const textOf = (error: unknown): string => {
  if (error instanceof CommandError) return `Error: ${error.message}`;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
};
