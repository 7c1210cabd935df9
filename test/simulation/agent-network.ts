import type {
  AgentAnswer,
  AgentCallOptions,
  AgentClient,
  AgentCommand,
  AgentCommandResult,
  AgentConversation,
  AgentEndpoint,
  AgentFailure,
  AgentInit,
  AgentLlm,
  AgentMessage,
  AgentQuestion,
  AgentSecret,
  AgentState,
  AgentUserMessage,
  NewAgentConversation,
} from '../../src/agent/agent.ts';
import { AgentError } from '../../src/agent/errors.ts';
import type { RunResult } from '../../src/resources/run-result.ts';
import { questionOf as questionAbout } from '../../src/agent/openhands-questions.ts';
import { sleep } from '@conversation-operator/base/clock';
import type { AnswerDoubts } from './answer-doubts.ts';
import type { AgentProcess, AskedQuestion, StoredConversation } from './agent-process.ts';
import type { Machine } from './machine.ts';
import { actionOf } from './model-calls.ts';
import type { SimulatedNode } from './node.ts';
import type { SandboxSteps } from './sandbox-steps.ts';
import type { Scheduler } from './scheduler.ts';
import type { Trace } from './trace.ts';
import type { FaultSchedule, RequestFaults } from './fault-schedule.ts';

export interface AgentNetworkOptions {
  readonly machine: Machine;
  readonly node: Pick<SimulatedNode, 'at'>;
  readonly faultSchedule: FaultSchedule;
  readonly scheduler: Scheduler;
  readonly trace: Trace;
  /** Whether the process is no operator, and no operator learns what it asks for; default false. */
  readonly isDirect?: boolean;
  /** A run begins or resumes because this process asked for it. */
  readonly onRun?: (conversation: StoredConversation, process: AgentProcess) => void;
  /** This process sends the order to interrupt a run, or to reject the action that waits in it. */
  readonly onInterruptSent?: (process: AgentProcess, conversation: StoredConversation) => void;
  /** Whether agents keep their question when they end, and know it by its id. */
  readonly keepsQuestions?: boolean | undefined;
  /** Doubts about the calls that answer questions; absent: there are none but other faults. */
  readonly answerDoubts?: AnswerDoubts | undefined;
  /** An action that waited is rejected because this process says so. */
  readonly onReject?: (conversation: StoredConversation) => void;
  /** A repository or a branch that isn't there; checked in what is asked. */
  readonly outcomeOf?: (
    command: string,
  ) => Partial<AgentCommandResult> & { readonly tookMs?: number };
  /** Steps that run independently of their call; absent: each is one long call, by `outcomeOf`. */
  readonly steps?: SandboxSteps | undefined;
  readonly onCommand?: (process: AgentProcess, command: string) => void;
}

const callMs = 10_000;
/** Time until the caller of an answer in doubt times out, and until a late answer arrives. */
const doubtMs = 4_000;
const lateMs = 12_000;
const probeMs = 3_000;
/** Maximum time for which a process may still act on a call that got no answer. */
const troubleMs = 10_000;

/** One machine's way to the agents. */
export class SimulatedAgentClient implements AgentClient {
  readonly #options: AgentNetworkOptions;

  constructor(options: AgentNetworkOptions) {
    this.#options = options;
  }

  async probe(endpoint: AgentEndpoint, options: AgentCallOptions = {}): Promise<AgentState> {
    try {
      return await this.#reach('probe', endpoint, options, probeMs, (agent) => agent.state);
    } catch (error) {
      if (!(error instanceof AgentError) || error.code === 'aborted') throw error;
      return 'unreachable';
    }
  }

  initialise(
    endpoint: AgentEndpoint,
    init: AgentInit,
    options: AgentCallOptions = {},
  ): Promise<undefined> {
    return this.#reach('initialise', endpoint, options, callMs, (agent) => {
      agent.initialise(init.bootstrapKey, init.sessionKey);
      return undefined;
    });
  }

  execute(
    endpoint: AgentEndpoint,
    { command, timeoutSeconds }: AgentCommand,
    options: AgentCallOptions = {},
  ): Promise<AgentCommandResult> {
    const { steps, scheduler } = this.#options;
    if (steps !== undefined) {
      const result = (agent: AgentProcess) => {
        agent.authenticate(endpoint.sessionKey);
        this.#options.onCommand?.(agent, command);
        return steps.resultOf(agent, command);
      };
      const enter = (agent: AgentProcess, go: () => void) =>
        scheduler.after(steps.take(agent, command), go);
      return this.#reach(
        'execute',
        endpoint,
        options,
        timeoutSeconds * 1000 + 5_000,
        result,
        enter,
      );
    }
    const { tookMs = 5, ...outcome } = this.#options.outcomeOf?.(command) ?? {};
    const { exitCode = 0, stderr = '' } = outcome;
    const stdout = command.includes('.agent/steps/')
      ? `step done ${exitCode} /workspace\n${stderr}`
      : '/workspace/project\n';
    const result = { exitCode: 0, stdout, stderr: '', timedOut: false };
    return this.#call(
      'execute',
      endpoint,
      options,
      timeoutSeconds * 1000 + 5_000,
      () => result,
      tookMs,
    );
  }

  writeFile(
    endpoint: AgentEndpoint,
    _path: string,
    _text: string,
    options: AgentCallOptions = {},
  ): Promise<void> {
    return this.#call('writeFile', endpoint, options, callMs, () => undefined);
  }

  hookConfig(
    endpoint: AgentEndpoint,
    _dir: string,
    options: AgentCallOptions = {},
  ): Promise<undefined> {
    return this.#call('hookConfig', endpoint, options, callMs, () => undefined);
  }

  createConversation(
    endpoint: AgentEndpoint,
    wanted: NewAgentConversation,
    options: AgentCallOptions = {},
  ) {
    return this.#call('create', endpoint, options, callMs, (agent) => agent.create(wanted));
  }

  conversation(
    endpoint: AgentEndpoint,
    id: string,
    options: AgentCallOptions = {},
  ): Promise<AgentConversation | undefined> {
    return this.#call('conversation', endpoint, options, callMs, (agent) => {
      const known = agent.volume.conversations.get(id);
      return known && this.#viewOf(agent, known);
    });
  }

  conversations(
    endpoint: AgentEndpoint,
    ids: readonly string[],
    options: AgentCallOptions = {},
  ): Promise<readonly (AgentConversation | undefined)[]> {
    return this.#call('conversations', endpoint, options, callMs, (agent) =>
      ids.map((id) => {
        const known = agent.volume.conversations.get(id);
        return known && this.#viewOf(agent, known);
      }),
    );
  }

  continueRun(endpoint: AgentEndpoint, id: string, options?: AgentCallOptions): Promise<void> {
    return this.run(endpoint, id, options);
  }

  run(endpoint: AgentEndpoint, id: string, options: AgentCallOptions = {}): Promise<void> {
    return this.#about('run', endpoint, id, options, (agent, conversation) => {
      if (conversation.broken && ['paused', 'error'].includes(conversation.status))
        throw new AgentError('failed', 'can not be decrypted');
      if (this.#nextRequest(`room for ${id}`, endpoint).happens('agentFull'))
        throw new AgentError('busy', 'too many runs');
      this.#options.onRun?.(conversation, agent);
      agent.run(conversation);
    });
  }

  interrupt(endpoint: AgentEndpoint, id: string, options: AgentCallOptions = {}): Promise<void> {
    this.#interrupts(endpoint, id);
    return this.#about('interrupt', endpoint, id, options, (agent, conversation) =>
      agent.interrupt(conversation),
    );
  }

  sendMessage(
    endpoint: AgentEndpoint,
    id: string,
    { content, run = true }: AgentMessage,
    options: AgentCallOptions = {},
  ): Promise<{ readonly started: boolean }> {
    const find = (agent: AgentProcess) => {
      agent.authenticate(endpoint.sessionKey);
      const conversation = agent.volume.conversations.get(id);
      if (conversation === undefined)
        throw new AgentError('not-found', 'no such conversation', { status: 404 });
      return conversation;
    };
    const post = (agent: AgentProcess) => {
      const text = content.map(({ text: part }) => part ?? '').join('\n');
      agent.post(find(agent), { text, run, isDirect: this.#isDirect });
      return { started: run };
    };
    const { scheduler } = this.#options;
    const enter = (agent: AgentProcess, go: () => void) => {
      const conversation = agent.volume.conversations.get(id);
      scheduler.after(0, () => {
        if (conversation === undefined) go();
        else agent.afterStep(conversation, go);
      });
    };
    return this.#reach(`sendMessage ${id}`, endpoint, options, callMs, post, enter);
  }

  userMessagesAfter(
    endpoint: AgentEndpoint,
    id: string,
    after: Pick<AgentUserMessage, 'id'> | undefined,
    options: AgentCallOptions = {},
  ): Promise<readonly AgentUserMessage[]> {
    return this.#about('userMessagesAfter', endpoint, id, options, (_, { messages }) =>
      messages.map(agentMessage).slice(after === undefined ? 0 : Number(after.id) + 1),
    );
  }

  userMessages(
    endpoint: AgentEndpoint,
    id: string,
    limit: number,
    options: AgentCallOptions = {},
  ): Promise<readonly AgentUserMessage[]> {
    return this.#about('userMessages', endpoint, id, options, (_, { messages }) =>
      messages.map(agentMessage).slice(-limit).reverse(),
    );
  }

  lastError(
    endpoint: AgentEndpoint,
    id: string,
    options: AgentCallOptions = {},
  ): Promise<AgentFailure | undefined> {
    return this.#about('lastError', endpoint, id, options, (_, { failure }) => failure);
  }

  lastResult(
    endpoint: AgentEndpoint,
    { id }: AgentConversation,
    options: AgentCallOptions = {},
  ): Promise<RunResult | undefined> {
    return this.#about('lastResult', endpoint, id, options, (_, { messages, status }) =>
      status === 'running' ? undefined : { message: `Done with message ${messages.length}.` },
    );
  }

  setSecrets(
    endpoint: AgentEndpoint,
    _id: string,
    _secrets: readonly AgentSecret[],
    options: AgentCallOptions = {},
  ): Promise<void> {
    return this.#call('setSecrets', endpoint, options, callMs, () => undefined);
  }

  useLlm(
    endpoint: AgentEndpoint,
    _id: string,
    _llm: AgentLlm,
    options: AgentCallOptions = {},
  ): Promise<void> {
    return this.#call('useLlm', endpoint, options, callMs, () => undefined);
  }

  /** The agent loses a conversation, for a mutant. */
  forget(endpoint: AgentEndpoint, id: string, options: AgentCallOptions = {}): Promise<void> {
    return this.#call(
      'forget',
      endpoint,
      options,
      callMs,
      (agent) => void agent.volume.conversations.delete(id),
    );
  }

  serverInfo(endpoint: AgentEndpoint, options: AgentCallOptions = {}) {
    return this.#call('serverInfo', endpoint, options, callMs, () => ({ needsModel: false }));
  }

  runningConversations(
    endpoint: AgentEndpoint,
    options: AgentCallOptions = {},
  ): Promise<readonly string[]> {
    return this.#call('running', endpoint, options, callMs, (agent) =>
      agent.shownAs('running').map(({ id }) => id),
    );
  }

  question(
    endpoint: AgentEndpoint,
    id: string,
    options: AgentCallOptions = {},
  ): Promise<AgentQuestion | undefined> {
    return this.#about('question', endpoint, id, options, (agent, conversation) =>
      agent.viewOf(conversation).executionStatus === 'waiting_for_confirmation'
        ? conversation.question && questionOf(conversation.question)
        : undefined,
    );
  }

  async answer(
    endpoint: AgentEndpoint,
    id: string,
    { questionId, accept }: AgentAnswer,
    options: AgentCallOptions = {},
  ): Promise<void> {
    const asked = await this.question(endpoint, id, options);
    if (asked?.id !== questionId) throw new AgentError('refused', 'the agent asks no longer');
    const respond = (callOptions: AgentCallOptions) =>
      this.#about('answer', endpoint, id, callOptions, (agent, conversation) => {
        // An agent with ids in its protocol gives a late answer to the question that it names.
        if (this.#options.keepsQuestions === true && conversation.question?.id !== questionId)
          return;
        // The protocol has no protection against a client whose message overtakes an answer.
        if (conversation.acceptedByMessage === questionId) return;
        agent.respond(conversation, accept, this.#isDirect);
      });
    const doubt = this.#options.answerDoubts?.next(questionId);
    if (doubt === undefined) return respond(options);
    const { scheduler } = this.#options;
    const give = () => void respond({}).catch(() => undefined);
    if (doubt === 'late') scheduler.after(lateMs, give);
    else give();
    await sleep(scheduler, doubtMs);
    throw new AgentError('timeout', 'the agent call ended: timeout');
  }

  hadApproval(
    endpoint: AgentEndpoint,
    id: string,
    { questionId }: AgentAnswer,
    options: AgentCallOptions = {},
  ): Promise<boolean> {
    return this.#about(
      'hadApproval',
      endpoint,
      id,
      options,
      (_agent, { rejected }) => !rejected.has(questionId),
    );
  }

  losableQuestions(
    endpoint: AgentEndpoint,
    options: AgentCallOptions = {},
  ): Promise<readonly string[]> {
    return this.#call('waiting', endpoint, options, callMs, (agent) =>
      this.#options.keepsQuestions === true
        ? []
        : agent.shownAs('waiting_for_confirmation').map(({ id }) => id),
    );
  }

  rejectPending(
    endpoint: AgentEndpoint,
    id: string,
    _reason: string,
    options: AgentCallOptions = {},
  ): Promise<void> {
    this.#interrupts(endpoint, id);
    return this.#about('rejectPending', endpoint, id, options, (agent, conversation) => {
      const waits = conversation.status === 'waiting_for_confirmation';
      agent.reject(conversation);
      if (waits) this.#options.onReject?.(conversation);
    });
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  get #isDirect(): boolean {
    return this.#options.isDirect === true;
  }

  #viewOf(agent: AgentProcess, conversation: StoredConversation): AgentConversation {
    const { keepsQuestions } = this.#options;
    const view = agent.viewOf(conversation);
    return keepsQuestions === true ? { ...view, keepsQuestions } : view;
  }

  #interrupts(endpoint: AgentEndpoint, id: string): void {
    const process = this.#options.node.at(endpoint.baseUrl);
    const conversation = process?.volume.conversations.get(id);
    const acts =
      process !== undefined &&
      conversation !== undefined &&
      ['running', 'waiting_for_confirmation'].includes(conversation.status);
    if (acts) this.#options.onInterruptSent?.(process, conversation);
  }

  #about<T>(
    what: string,
    endpoint: AgentEndpoint,
    id: string,
    options: AgentCallOptions,
    work: (agent: AgentProcess, conversation: StoredConversation) => T,
  ) {
    return this.#call(`${what} ${id}`, endpoint, options, callMs, (agent) => {
      const conversation = agent.volume.conversations.get(id);
      if (conversation === undefined)
        throw new AgentError('not-found', 'no such conversation', { status: 404 });
      return work(agent, conversation);
    });
  }

  #call<T>(
    what: string,
    endpoint: AgentEndpoint,
    options: AgentCallOptions,
    timeoutMs: number,
    work: (agent: AgentProcess) => T,
    tookMs = 0,
  ): Promise<T> {
    const { scheduler } = this.#options;
    const known = (agent: AgentProcess): T => {
      agent.authenticate(endpoint.sessionKey);
      return work(agent);
    };
    return this.#reach(what, endpoint, options, timeoutMs, known, (_, go) =>
      scheduler.after(tookMs, go),
    );
  }

  #reach<T>(
    what: string,
    endpoint: AgentEndpoint,
    { signal }: AgentCallOptions,
    timeoutMs: number,
    work: (agent: AgentProcess) => T,
    enter: (agent: AgentProcess, go: () => void) => void = (_, go) =>
      this.#options.scheduler.after(0, go),
  ): Promise<T> {
    const { machine, node, scheduler, trace } = this.#options;
    const faults = this.#nextRequest(what, endpoint);
    const label = `${machine.name} -> agent ${endpoint.baseUrl} ${what}`;
    return new Promise((resolve, reject) => {
      const timer = machine.clock.after(timeoutMs, () => {
        trace.note(`${label}: no answer`);
        fail('timeout');
      });
      const fail = (code: AgentError['code']) => {
        timer.cancel();
        reject(new AgentError(code, `the agent call ended: ${code}`));
      };
      if (signal?.aborted === true) {
        fail('aborted');
        return;
      }
      signal?.addEventListener('abort', () => fail('aborted'), { once: true });
      const answer = (outcome: string, settle: () => void) => {
        scheduler.after(transitMs(faults), () =>
          machine.deliver(() => {
            trace.note(`${label}: ${outcome}`);
            timer.cancel();
            settle();
          }),
        );
      };
      if (faults.happens('agentLost')) {
        const target = node.at(endpoint.baseUrl);
        if (target !== undefined)
          target.troubledUntil = scheduler.monotonic() + timeoutMs + troubleMs;
        if (faults.between(0, 1) < 0.5) answer('lost', () => fail('connection-lost'));
        return;
      }
      scheduler.after(transitMs(faults), () => {
        const agent = node.at(endpoint.baseUrl);
        if (agent === undefined || !agent.listening) {
          answer('unreachable', () => fail('unreachable'));
          return;
        }
        if (agent.silentSince !== undefined) {
          agent.troubledUntil = Math.max(
            agent.troubledUntil,
            scheduler.monotonic() + timeoutMs + troubleMs,
          );
          return;
        }
        if (faults.happens('agentFailure')) {
          agent.troubledUntil = scheduler.monotonic() + callMs + troubleMs;
          answer('500', () => fail('failed'));
          return;
        }
        enter(agent, () => {
          if (!agent.alive) {
            answer('died', () => fail('connection-lost'));
            return;
          }
          let result: T;
          try {
            result = work(agent);
          } catch (error) {
            const code = error instanceof AgentError ? error.code : 'failed';
            answer(code, () => fail(code));
            return;
          }
          if (faults.happens('agentAnswerLost')) {
            agent.troubledUntil = scheduler.monotonic() + timeoutMs + troubleMs;
            trace.note(`${label}: done, answer lost`);
          } else answer('done', () => resolve(result));
        });
      });
    });
  }

  /** By the name of the agent's pod, whose address may be another pod's in the next run. */
  #nextRequest(what: string, { baseUrl }: AgentEndpoint): RequestFaults {
    const { machine, node, faultSchedule } = this.#options;
    const agent = node.at(baseUrl)?.podName ?? baseUrl;
    return faultSchedule.nextRequest(`${machine.name} agent ${agent} ${what}`);
  }
}

const transitMs = (faults: RequestFaults): number =>
  faults.happens('agentSlow') ? faults.between(100, 8_000) : faults.transitMs();

const agentMessage = (text: string, index: number): AgentUserMessage => ({
  id: String(index),
  timestamp: '',
  text,
});

/** The question as the client of the product reads it, with an id and options of the simulation. */
function questionOf({ id, call }: AskedQuestion): AgentQuestion | undefined {
  const conversation = { executionStatus: 'waiting_for_confirmation' } as const;
  const question = questionAbout({ conversation, actions: [actionOf(id, call)] });
  return (
    question && {
      ...question,
      id,
      options: [
        { id: 'yes', name: 'Yes', kind: 'allow_once' },
        { id: 'no', name: 'No', kind: 'reject_once' },
      ],
    }
  );
}
