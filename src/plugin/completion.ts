import type { Command } from 'commander';
import { cachedConversation } from '../resources/cached-conversation.ts';
import { conversations } from '../resources/conversation.ts';
import { titleOf } from '../gateway/presenters/conversation.ts';
import { withCluster, type PluginOptions } from './cluster.ts';
import { escapedLine, print } from './terminal.ts';

export const shells = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof shells)[number];

/**
 * Name of the program by which kubectl completes the plugin. Its output ends with the directive of
 * Cobra that adds no names of files.
 */
export const completer = 'kubectl_complete-conversations';
const noFiles = ':4';

const scripts: Readonly<Record<Shell, string>> = {
  bash: `_kubectl_conversations() {
  local IFS=$'\\n'
  COMPREPLY=($(kubectl-conversations __complete "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | grep -v '^:' | cut -f 1))
}
complete -F _kubectl_conversations kubectl-conversations`,
  zsh: `#compdef kubectl-conversations
_kubectl_conversations() {
  local -a found
  found=("\${(@f)$(kubectl-conversations __complete "\${(@)words[2,CURRENT]}" 2>/dev/null | grep -v '^:' | sed 's/:/\\\\:/g; s/\\t/:/')}")
  _describe conversations found
}
compdef _kubectl_conversations kubectl-conversations`,
  fish: `complete -c kubectl-conversations -f -a '(kubectl-conversations __complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null | string match -v ":*")'`,
};

export const completionScript = (shell: Shell): string => scripts[shell];

const optionsOf = (command: Command): readonly string[] =>
  command.options.flatMap(({ long, description }) =>
    long == null ? [] : [`${long}\t${description}`],
  );

interface Words {
  readonly command: Command | undefined;
  /** Words after the command that are neither options nor their values. */
  readonly given: readonly string[];
  /** The option whose value the last word is. */
  readonly option: Command['options'][number] | undefined;
  readonly options: PluginOptions;
}

/** Reads the words before the last one as the program would. */
function readWords(program: Command, before: readonly string[]): Words {
  const command = program.commands.find((each) => each.name() === before[0]);
  const given: string[] = [];
  const values: Record<string, unknown> = {};
  let option: Words['option'];
  for (const word of command === undefined ? [] : before.slice(1)) {
    if (option !== undefined) {
      values[option.attributeName()] = word;
      option = undefined;
      continue;
    }
    const [name = '', value] = word.split(/=(.*)/s);
    const found = command?.options.find(({ long, short }) => long === name || short === name);
    if (found === undefined) {
      given.push(word);
    } else if (found.required && value === undefined) option = found;
    else values[found.attributeName()] = value ?? true;
  }
  return { command, given, option, options: values };
}

async function namesOf(options: PluginOptions): Promise<readonly string[]> {
  return withCluster(options, async ({ client, namespace }) => {
    const { items } = await client.list(conversations, { namespace });
    return items.map(
      (each) => `${each.metadata.name}\t${escapedLine(titleOf(cachedConversation(each)))}`,
    );
  });
}

/** The possible values of the last word, each with a description after a tab. */
export async function completionsOf(
  program: Command,
  words: readonly string[],
  names: (options: PluginOptions) => Promise<readonly string[]> = namesOf,
): Promise<readonly string[]> {
  const last = words.at(-1) ?? '';
  const { command, given, option, options } = readWords(program, words.slice(0, -1));
  const candidates = async (): Promise<readonly string[]> => {
    if (command === undefined)
      return words.length > 1
        ? []
        : program.commands
            .filter((each) => !each.name().startsWith('_'))
            .map((each) => `${each.name()}\t${each.description()}`);
    if (option !== undefined) return option.argChoices ?? [];
    if (last.startsWith('-')) return optionsOf(command);
    const argument = command.registeredArguments[given.length];
    if (argument?.argChoices !== undefined) return argument.argChoices;
    return argument?.name() === 'name' ? names(options) : [];
  };
  return (await candidates()).filter((candidate) => candidate.startsWith(last));
}

/** Prints completions. A cluster that refuses or does not answer has none, without a message. */
export async function complete(program: Command, words: readonly string[]): Promise<void> {
  const found = await completionsOf(program, words).catch(() => []);
  for (const each of found) print(each);
  print(noFiles);
}
