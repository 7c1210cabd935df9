import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { agentMessage, stateEvent, textOf, type ApprovalRequest } from '../events.ts';
import {
  ConfirmationRequested,
  PauseRequested,
  RunFailure,
  type ChooseProgram,
  type Program,
  type ProgramPlace,
  type Run,
} from '../program.ts';
import { maskText } from '../mask.ts';
import { sessionServersOf, type McpServer } from '../mcp-servers.ts';
import { agentVariablesOf } from '../secrets.ts';
import { acpSettingsOf, type AcpSettings, setUpOf, type AcpModel } from './vendors.ts';
import { AcpChild } from './child.ts';
import {
  AcpFailure,
  failureOf,
  questionDrafts,
  statsDrafts,
  stopFailure,
  unreadText,
  unsupported,
} from './turn.ts';
import { promptOf, transcriptOf, type Replay } from './session-texts.ts';

export interface AcpProgramOptions extends Omit<ProgramPlace, 'model'> {
  readonly settings: AcpSettings;
  readonly model: AcpModel;
}

/** Returns the factory of AcpPrograms; undefined if `env` names no agent. Throws SettingsError. */
export function acpPrograms(
  env: Readonly<Record<string, string | undefined>>,
): ChooseProgram | undefined {
  const settings = acpSettingsOf(env);
  return (
    settings &&
    (({ model, ...place }) =>
      new AcpProgram({
        ...place,
        settings,
        model: {
          name: model?.model.replace(/^[a-z]+\//, ''),
          baseUrl: model?.baseUrl,
          apiKey: model?.apiKey,
        },
      }))
  );
}

/** Maximum restarts of the agent's process in one run. */
const maxRestarts = 3;
const firstDelayMs = 500;
const maxReasonCharacters = 200;
/** If this many processes in a row fail to open a session, a new session replaces the session. */
const maxOpenings = 2;
/** Maximum number of logged messages that are compared with the replay of a session. */
const maxComparedMessages = 100;

const pauseText =
  'Your last turn was interrupted. Continue with the task, unless a message says otherwise.';
const endText =
  'The process of the agent was restarted during its last turn. Continue with the task. A tool that ran at that moment may have been executed in part: check its effects before you use it again.';

/** A person's permission for a call, kept for the next process because the last one has ended. */
interface Undelivered {
  readonly hash: string;
  readonly kind: string | undefined;
}

/**
 * Works on a conversation with an agent that speaks the Agent Client Protocol. The agent's process
 * lives from the first run on, also while a permission request waits for a person. The log stores a
 * prompt before it is sent, and no prompt is sent twice: if the process ends, a new process
 * continues the session, and its next prompt says that the work was interrupted.
 */
export class AcpProgram implements Program {
  readonly #options: AcpProgramOptions;
  #child: AcpChild | undefined;
  #readsImages = false;
  #undelivered: Undelivered | undefined;
  /** Session that could not be opened, the number of consecutive failures, and the last error. */
  #unopened: { readonly session: string; readonly times: number; readonly why: string } | undefined;
  /** Messages of a session that the agent has lost, for the first prompt of the new session. */
  #transcript: string | undefined;

  constructor(options: AcpProgramOptions) {
    this.#options = options;
  }

  async work(run: Run): Promise<void> {
    for (let restarts = 0; ; restarts++) {
      try {
        await this.#turns(run);
        return;
      } catch (error) {
        if (run.signal.aborted || error instanceof PauseRequested) await this.#cancel();
        if (!(error instanceof AcpFailure) || run.signal.aborted) throw error;
        await this.close();
        if (restarts >= maxRestarts) throw failureOf(error);
        await sleep(firstDelayMs * 2 ** restarts, undefined, { signal: run.signal }).catch(() =>
          run.signal.throwIfAborted(),
        );
      }
    }
  }

  async close(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    child?.kill();
    await child?.ended();
  }

  /** Cancels the prompt of an interrupted run. The log gets no further event of this prompt. */
  async #cancel(): Promise<void> {
    this.#undelivered = undefined;
    const child = this.#child;
    await child?.cancel();
    if (child?.hasFailed === true) await this.close();
  }

  async #turns(run: Run): Promise<void> {
    for (;;) {
      run.checkpoint();
      const { approval } = run;
      // A message of the user does not answer an open permission request.
      if (approval !== undefined && approval.answer === undefined)
        throw new ConfirmationRequested(approval.request.id);
      const child = await this.#connected(run);
      let notice: string | undefined;
      if (approval?.answer !== undefined) {
        // The event is stored first, so that no answer is sent twice. If the server crashes before
        // it sends the answer, the agent asks again.
        await run.append({
          event: stateEvent({ key: 'approval_delivered', value: approval.request.id }),
        });
        const { option_id: optionId, reason } = approval.answer;
        if (child.answer(approval.request.id, optionId) === 'unknown')
          notice = this.#keep(approval.request, optionId, reason);
      }
      if (!child.isInTurn && !(await this.#begin(run, child, notice))) return;
      await this.#follow(run, child);
    }
  }

  /** Sends the next prompt. Returns false if there is nothing to send. */
  async #begin(run: Run, child: AcpChild, notice: string | undefined): Promise<boolean> {
    const pending = run.pendingMessages();
    const parts: string[] = [];
    if (run.interruptedBy !== undefined)
      parts.push(run.interruptedBy === 'pause' ? pauseText : endText);
    if (notice !== undefined) parts.push(notice);
    const events = await run.log.read(pending.flatMap((at) => run.log.entries[at] ?? []));
    const messages = events.flatMap((event) =>
      event.kind === 'MessageEvent' ? [event.llm_message.content] : [],
    );
    // `#undelivered` is valid only if this prompt has a notice about it and no message of the user.
    if (notice === undefined || pending.length > 0) this.#undelivered = undefined;
    if (parts.length + messages.length === 0) return false;
    if (this.#transcript !== undefined) parts.unshift(this.#transcript);
    // The first prompt of a session has the suffix, because the protocol has no system message.
    const isNew = run.log.handledThrough === 0 || this.#transcript !== undefined;
    if (isNew && run.systemMessageSuffix !== undefined) parts.unshift(run.systemMessageSuffix);
    const last = pending.at(-1);
    const { blocks, unreadImages } = promptOf(parts, messages, this.#readsImages);
    await run.append(
      ...(unreadImages === 0
        ? []
        : [
            {
              event: stateEvent({
                key: 'acp_images_skipped',
                value: unreadText(unreadImages, { readsImages: this.#readsImages }),
              }),
            },
          ]),
      {
        event: stateEvent({ key: 'acp_turn', value: 'begun' }),
        ...(last === undefined ? {} : { handledThrough: last + 1 }),
      },
    );
    this.#transcript = undefined;
    child.prompt(blocks);
    return true;
  }

  /** Records the agent's events until the prompt ends, or a person has to answer a request. */
  async #follow(run: Run, child: AcpChild): Promise<void> {
    const signal = AbortSignal.any([run.signal, run.pauseSignal]);
    for (;;) {
      const item = await child.next(signal);
      switch (item.kind) {
        case 'events':
          await run.append(...item.events.map((event) => ({ event })));
          run.checkpoint();
          break;
        case 'permission': {
          const optionId = this.#answerFor(run, item.request);
          if (optionId !== undefined) {
            child.answer(item.request.id, optionId);
            break;
          }
          await run.append(...questionDrafts(item.request));
          // The agent may have withdrawn the request before the log stored it.
          if (child.hasWithdrawn(item.request.id)) this.#options.link.withdraw(item.request.id);
          throw new ConfirmationRequested(item.request.id);
        }
        case 'refused':
          this.#undelivered = undefined;
          await run.append({ event: stateEvent({ key: 'acp_turn', value: 'refused' }) });
          throw new RunFailure('AcpPromptRefused', item.detail, {
            classification: { kind: 'config', retryable: true, user_action: 'settings' },
          });
        case 'stopped':
          // The agent got the notice that the call is allowed, but did not repeat the call.
          this.#undelivered = undefined;
          await run.append(...statsDrafts(run, item.usage), {
            event: stateEvent({ key: 'acp_turn', value: this.#shown(item.reason) }),
          });
          if (item.reason !== 'end_turn' && item.reason !== 'cancelled')
            throw stopFailure(this.#shown(item.reason));
          return;
      }
    }
  }

  #shown(reason: string): string {
    return maskText(reason, this.#options.needles()).slice(0, maxReasonCharacters);
  }

  /** Returns the option that `#undelivered` or the policy chooses; undefined to ask a person. */
  #answerFor(run: Run, request: ApprovalRequest): string | undefined {
    const optionOf = (kind: string | undefined) =>
      request.options.find((option) => option.kind === kind)?.option_id;
    const undelivered = this.#undelivered;
    this.#undelivered = undefined;
    if (undelivered !== undefined && undelivered.hash === request.call_hash)
      return optionOf(undelivered.kind);
    return run.confirmationPolicy === 'NeverConfirm' ? optionOf('allow_once') : undefined;
  }

  /** Stores a permission in `#undelivered` for the next process. Returns a notice to the agent. */
  #keep(request: ApprovalRequest, optionId: string | null, reason: string | null): string {
    const kind = request.options.find(({ option_id }) => option_id === optionId)?.kind;
    const isAllowed = kind?.startsWith('allow') === true;
    // `#undelivered` permits only this call, even if the person has also allowed later calls.
    const { call_hash: hash } = request;
    if (isAllowed && hash !== undefined) this.#undelivered = { hash, kind: 'allow_once' };
    // The agent writes the title. As JSON, the title cannot imitate the words of this notice.
    const call = JSON.stringify({ title: request.title, input: request.input });
    return isAllowed
      ? `The user has allowed this tool call, which has not been executed: ${call}. Call the tool again with the same input if it is still needed.`
      : `The user has refused this tool call, which has not been executed: ${call}.${reason === null ? '' : ` Reason: ${reason}`}`;
  }

  /** Returns the agent's process with an open session. Starts a process if there is none. */
  async #connected(run: Run): Promise<AcpChild> {
    const known = this.#child;
    if (known?.hasFailed === false) return known;
    const { settings, model, home, env, guard, link, needles } = this.#options;
    const { vendor, allowAlways, mcpServers } = settings;
    const setUp = setUpOf(vendor, model, {
      workingDir: run.workingDir,
      home,
      asks: run.confirmationPolicy !== 'NeverConfirm',
    });
    await mkdir(home, { recursive: true });
    for (const [path, text] of Object.entries(setUp.files)) {
      await mkdir(dirname(join(home, path)), { recursive: true });
      await writeFile(join(home, path), text, { mode: 0o600 });
    }
    // The tool calls of the previous process ended with it.
    await run.failOpenCalls('The process of the agent ended before the tool did.');
    const signal = AbortSignal.any([run.signal, run.pauseSignal]);
    const secrets = await this.#secretsFor(run, signal);
    const options = {
      command: setUp.command,
      cwd: setUp.folder,
      env: { ...env, ...secrets, ...setUp.env, ...settings.env, HOME: home },
      guard,
      allowAlways,
      meta: setUp.meta,
      onWithdrawn: (id: string) => link.withdraw(id),
      live: link.live,
      needles,
    };
    const { child, agent } = await AcpChild.start(options, signal);
    try {
      const { mcpCapabilities, promptCapabilities } = agent.agentCapabilities ?? {};
      this.#readsImages = promptCapabilities?.image === true;
      for (const server of mcpServers)
        if ('type' in server && mcpCapabilities?.[server.type] !== true)
          throw unsupported(server.name, server.type);
      if (vendor.authMethod !== undefined) await child.authenticate(vendor.authMethod);
      const able = setUp.startsMcpServers && {
        http: mcpCapabilities?.http === true,
        sse: mcpCapabilities?.sse === true,
      };
      const { servers, skipped } = sessionServersOf(mcpServers, this.#options.mcpServers(), able);
      await recordSkipped(run, skipped);
      await this.#openSession(run, child, {
        servers,
        resume: agent.agentCapabilities?.sessionCapabilities?.resume != null,
        load: agent.agentCapabilities?.loadSession === true,
      });
      const mode = modeOf(settings, run.confirmationPolicy);
      if (mode !== undefined) await child.setMode(mode);
    } catch (error) {
      child.kill();
      throw error;
    }
    return (this.#child = child);
  }

  /** Returns the conversation's secrets as variables. Records the names of omitted secrets. */
  async #secretsFor(run: Run, signal: AbortSignal): Promise<Readonly<Record<string, string>>> {
    const { settings, readSecrets } = this.#options;
    const { values, unread } = await readSecrets(signal);
    // A secret in a variable of the vendor, even in one without a value, could redirect API keys.
    const taken = new Set([settings.vendor.env, settings.env].flatMap(Object.keys));
    const { env, skipped } = agentVariablesOf(values, taken);
    const missing = [...unread, ...skipped].sort();
    if (missing.length > 0 && missing.join() !== run.skippedSecrets.join())
      await run.append({ event: stateEvent({ key: 'acp_secrets_skipped', value: missing }) });
    return env;
  }

  async #openSession(
    run: Run,
    child: AcpChild,
    able: {
      readonly servers: readonly McpServer[];
      readonly resume: boolean;
      readonly load: boolean;
    },
  ): Promise<void> {
    const { continues } = this.#options.settings.vendor;
    const { acpSession } = run;
    const { servers } = able;
    const lost = this.#lost(acpSession);
    if (acpSession !== undefined && lost === undefined) {
      const opened = (open: () => Promise<Replay | undefined>) =>
        this.#continued(run, child, acpSession, open);
      if (continues === 'resume' && able.resume)
        if (await opened(() => child.resumeSession(acpSession, servers))) return;
      if (continues !== 'transcript' && able.load)
        if (await opened(() => child.loadSession(acpSession, servers))) return;
    }
    const session = await child.newSession(servers);
    if (acpSession !== undefined) this.#transcript = await transcriptOf(run.log);
    await run.append(
      { event: stateEvent({ key: 'acp_session', value: session }) },
      ...(lost === undefined
        ? []
        : [{ event: stateEvent({ key: 'acp_session_lost', value: lost }) }]),
      ...(acpSession === undefined
        ? []
        : [{ event: stateEvent({ key: 'acp_continued', value: 'transcript' }) }]),
    );
  }

  /** Returns the error of a session that failed `maxOpenings` times; undefined to try it again. */
  #lost(session: string | undefined): string | undefined {
    const unopened = this.#unopened;
    return unopened?.session === session && (unopened?.times ?? 0) >= maxOpenings
      ? unopened?.why
      : undefined;
  }

  /** Continues a session and records this. Returns false if the agent has lost the session. */
  async #continued(
    run: Run,
    child: AcpChild,
    session: string,
    open: () => Promise<Replay | undefined>,
  ): Promise<boolean> {
    try {
      const replay = await open();
      this.#unopened = undefined;
      const lost = replay?.lostFrom(await lastMessages(run), this.#options.needles()) ?? [];
      await run.append(...lost.map((text) => ({ event: agentMessage(text) })), {
        event: stateEvent({
          key: 'acp_continued',
          value: replay === undefined ? 'resume' : 'load',
        }),
      });
      return true;
    } catch (error) {
      if (!(error instanceof AcpFailure)) throw error;
      if (!child.hasFailed) return false;
      const times = this.#unopened?.session === session ? this.#unopened.times : 0;
      const why = error.message.slice(0, maxReasonCharacters);
      this.#unopened = { session, times: times + 1, why };
      throw error;
    }
  }
}

async function lastMessages({ log }: Run): Promise<readonly string[]> {
  const entries = log.entries.filter(
    ({ kind, source }) => kind === 'MessageEvent' && source === 'agent',
  );
  return (await log.read(entries.slice(-maxComparedMessages))).flatMap((event) =>
    event.kind === 'MessageEvent' ? [textOf(event.llm_message.content)] : [],
  );
}

/** Records each MCP server that the agent can't use, once per conversation. */
async function recordSkipped(run: Run, names: readonly string[]): Promise<void> {
  const unknown = names.filter((name) => !run.skippedMcpServers.has(name));
  await run.append(
    ...unknown.map((name) => ({ event: stateEvent({ key: 'acp_mcp_skipped', value: name }) })),
  );
}

/** Returns the mode of a session; undefined to keep the agent's default. */
function modeOf(
  { mode, vendor }: AcpSettings,
  policy: Run['confirmationPolicy'],
): string | undefined {
  if (policy === 'NeverConfirm') return vendor.modes?.free;
  return mode ?? (policy === undefined ? undefined : vendor.modes?.asks);
}
