import { readFile } from 'node:fs/promises';
import { newUuid } from '@conversation-operator/base/uuid';
import { found, isAlreadyExists, mayBeExecuted } from '@conversation-operator/kube/errors';
import type { NewObject } from '@conversation-operator/kube/object';
import { systemCodeOf } from '@conversation-operator/base/system-code';
import { CommandError, unreadable } from '../commands/terminal.ts';
import { validBody } from '../gateway/errors/validation.ts';
import { ProblemError } from '../gateway/errors/problem-error.ts';
import { messageOf } from '../gateway/presenters/message.ts';
import { specFieldsOf, startRequestSchema } from '../gateway/presenters/start-fields.ts';
import { refuseOverQuota } from '../gateway/quota/quota.ts';
import { storedBytesOf } from '../resources/cached-conversation.ts';
import { conversations, type Conversation } from '../resources/conversation.ts';
import { apiVersion } from '../resources/group.ts';
import { withCluster, type PluginOptions } from './cluster.ts';
import { follow, interruption } from './follow.ts';
import { nameOf } from './list.ts';
import { neededOwner } from './owner.ts';
import { readScene } from './scene.ts';
import { print, printValue, say, standardInput, UsageError } from './terminal.ts';

export interface StartOptions extends PluginOptions {
  readonly message?: string;
  /** A file with the message; `-` for standard input. */
  readonly file?: string;
  readonly repo?: string;
  readonly branch?: string;
  readonly template?: string;
  readonly title?: string;
  readonly follow?: boolean;
}

/** The options by the fields of a start request, for messages about them. */
const optionNames: Readonly<Record<string, string>> = {
  initial_message: '--message',
  selected_repository: '--repo',
  selected_branch: '--branch',
  title: '--title',
  sandbox_spec_id: '--template',
};

/** Validates a request as REST does. Throws a `UsageError` that names the options. */
export function startRequestOf(options: StartOptions, text: string) {
  const { repo, branch, template, title } = options;
  const body = {
    initial_message: { content: [{ type: 'text', text }] },
    selected_repository: repo,
    selected_branch: branch,
    sandbox_spec_id: template,
    title,
  };
  if (branch !== undefined && repo === undefined)
    throw new UsageError('--branch needs --repo: a branch is one of a repository');
  try {
    return validBody(startRequestSchema, body);
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error;
    const errors = (error.errors ?? []).map(({ path, message }) => {
      const [, field = ''] = path.split('.');
      return `${optionNames[field] ?? path}: ${message}`;
    });
    throw new UsageError(errors.length === 0 ? error.message : errors.join('\n'), { cause: error });
  }
}

async function messageText({ message, file }: StartOptions): Promise<string> {
  if ((message === undefined) === (file === undefined))
    throw new UsageError('-m TEXT or -f FILE is needed, and only one of them');
  if (message !== undefined) return message;
  if (file === '-' || file === undefined) return standardInput();
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if (systemCodeOf(error) === undefined) throw error;
    throw unreadable('--file', file, error);
  }
}

/** Creates a Conversation, as the gateway does, and follows it. */
export async function start(options: StartOptions): Promise<void> {
  const request = startRequestOf(options, await messageText(options));
  await withCluster(options, async ({ client, namespace, context }) => {
    const { owner, from } = await neededOwner(options, context);
    if (from !== undefined) say(`Owner: ${owner}, of ${from}.`);
    const scene = await readScene(client, namespace);
    refuseOverQuota(scene.lookup, owner);
    const { repository, ...fields } = specFieldsOf({
      ...request,
      title: request.title || undefined,
    });
    const name = newUuid(Date.now());
    const object: NewObject<Conversation> = {
      apiVersion,
      kind: conversations.kind,
      metadata: { namespace, name },
      spec: {
        owner,
        templateName: 'default',
        ...fields,
        ...(repository === undefined ? {} : { repository }),
        ...(request.initial_message === null
          ? {}
          : { initialMessage: messageOf(request.initial_message) }),
      },
    };
    const storedBytes = storedBytesOf(object);
    const created = await scene.caps.during(
      owner,
      { conversations: 1, storedBytes, sandboxes: 1 },
      () =>
        client.create(conversations, object).catch(async (error: unknown) => {
          if (!isAlreadyExists(error) && !mayBeExecuted(error)) throw error;
          // The name is of this command alone: an object of it is the one that was sent.
          const present = await found(client.get(conversations, namespace, name)).catch(
            () => undefined,
          );
          if (present !== undefined) return present;
          throw new CommandError(
            `It is not known whether the conversation ${name} was created: look with kubectl conversations list`,
            { cause: error },
          );
        }),
    );
    const { output } = options;
    if (!printValue(output, created)) print(output === 'name' ? nameOf(created) : name);
    if (options.follow !== true) {
      if (output === undefined) say(`Started for ${owner}. kubectl conversations why ${name}`);
      return;
    }
    const group = await follow(client, { namespace, name }, interruption());
    // A script goes on only after a run that is over and needs nobody. Ctrl-C is no error.
    if (group !== undefined && group !== 'finished') process.exitCode = 1;
  });
}
