import type { Conversation } from '../../src/resources/conversation.ts';
import { conversationIdOf } from '../../src/resources/ids.ts';
import type { Sandbox } from '../../src/resources/sandbox.ts';
import { viewOfSandbox } from '../../src/status/sandbox-phase.ts';
import type { AskedQuestion, StoredConversation } from './agent-process.ts';
import type { Cluster } from './cluster.ts';
import type { Duty } from './duties.ts';
import type { Findings } from './findings.ts';
import type { SimulatedNode } from './node.ts';
import { Violation } from './safety.ts';
import { isValid } from './stored-answers.ts';
import { isAnswering } from './sandbox-duties.ts';
import type { SandboxHistory } from './sandbox-history.ts';
import type { Scheduler } from './scheduler.ts';

export interface ApprovalCheckOptions {
  readonly cluster: Cluster;
  readonly node: SimulatedNode;
  readonly scheduler: Scheduler;
  readonly findings: Findings;
  readonly history: SandboxHistory;
}

/** Maximum time until a question of an agent is shown: a poll finds the question. */
const shownMs = 70_000;
/** Maximum time until an answer reaches an agent that asks; longer when a call is in doubt. */
const answeredMs = 50_000;
/** Maximum time to do something that only needs the API server. */
const promptMs = 3_000;

/**
 * Checks that tools run only when a person has approved their call, once for each approval, and
 * that questions and answers are not lost. The truth is what agents ask and execute, and what
 * people have had stored.
 */
export class ApprovalCheck {
  readonly #options: ApprovalCheckOptions;
  /** Calls by the id of their question. */
  readonly #calls = new Map<string, string>();
  /** Approvals of people, by call: ids of questions, and answers to the agent itself. */
  readonly #approved = new Map<string, Set<string>>();
  readonly #executions = new Map<string, number>();
  /** Ids of the questions whose call was executed. */
  readonly #executed = new Set<string>();
  /** Ids of the questions that were closed as withdrawn. */
  readonly #withdrawn = new Set<string>();
  /** Sandboxes that were off when the answer of this question was stored, by UID. */
  readonly #toResume = new Map<string, { readonly name: string; readonly questionId: string }>();
  /** Ids of the questions whose first answer is stored. */
  readonly #answers = new Set<string>();
  #direct = 0;

  constructor(options: ApprovalCheckOptions) {
    this.#options = options;
    const { cluster, node } = options;
    node.onAsked = ({ id, call }) => this.#calls.set(id, call);
    node.onExecuted = (question) => this.#execute(question);
    cluster.onChange(({ plural, type, object }) => {
      if (plural === 'conversations' && type !== 'DELETED') {
        this.#answered(object as Conversation);
        this.#closed(object as Conversation);
      }
      if (plural === 'sandboxes' && (type === 'DELETED' || isOn(object as Sandbox)))
        this.#toResume.delete(object.metadata.uid);
    });
  }

  /** A person has said yes to the agent itself. */
  approvedAtAgent({ question }: StoredConversation): void {
    if (question !== undefined) this.#approve(question.call, `direct ${++this.#direct}`);
  }

  duties(): readonly Duty[] {
    const { cluster } = this.#options;
    return [
      ...cluster.conversations.flatMap((conversation) => this.#ofConversation(conversation)),
      ...[...this.#toResume.values()].map(({ name, questionId }) => ({
        rule: 'an answer resumes its sandbox in time',
        subject: `sandbox ${name} for ${questionId}`,
        boundMs: promptMs,
      })),
    ];
  }

  #ofConversation(conversation: Conversation): readonly Duty[] {
    const { cluster, history, scheduler } = this.#options;
    const { spec, status, metadata } = conversation;
    const sandbox = cluster.sandboxes.find(({ metadata: { uid } }) => uid === status?.sandboxUID);
    const agent = sandbox === undefined ? undefined : history.agentOf(sandbox.metadata.uid);
    if (
      sandbox === undefined ||
      agent === undefined ||
      status?.start?.status !== 'READY' ||
      viewOfSandbox(sandbox).phase !== 'RUNNING' ||
      !isAnswering(agent, scheduler.monotonic())
    )
      return [];
    const { question } = agent.volume.conversations.get(conversationIdOf(conversation)) ?? {};
    if (question === undefined) return [];
    const subject = `conversation ${metadata.name}, question ${question.id}`;
    if (status.approval?.id !== question.id)
      return [{ rule: 'a question is shown in time', subject, boundMs: shownMs }];
    // A question may have the answer of an earlier one about the same call.
    const isAnswered =
      status.approval.answer !== undefined ||
      spec.approvals?.some((answer) => answer.id === question.id && isValid(answer)) === true;
    return isAnswered
      ? [{ rule: 'an answer reaches its agent in time', subject, boundMs: answeredMs }]
      : [];
  }

  /** Only people write answers; the first one to a question that is stored counts. */
  #answered(conversation: Conversation): void {
    const { status, spec } = conversation;
    for (const answer of spec.approvals ?? []) {
      const { id } = answer;
      if (this.#answers.has(id)) continue;
      this.#answers.add(id);
      const call = this.#calls.get(id);
      if (!isValid(answer) || call === undefined) continue;
      if (answer.decision === 'approve' || answer.option === 'yes') this.#approve(call, id);
      const sandbox = this.#options.cluster.sandboxOf(status?.sandboxUID ?? '');
      // A question may have the answer of an earlier one about the same call.
      const isFirst = status?.approval?.id === id && status.approval.answer === undefined;
      if (isFirst && sandbox !== undefined && !isOn(sandbox))
        this.#toResume.set(sandbox.metadata.uid, { name: sandbox.metadata.name, questionId: id });
    }
  }

  #approve(call: string, by: string): void {
    const approvals = this.#approved.get(call) ?? new Set();
    this.#approved.set(call, approvals.add(by));
  }

  #execute({ id, call }: AskedQuestion): void {
    const { findings } = this.#options;
    const executions = (this.#executions.get(call) ?? 0) + 1;
    this.#executions.set(call, executions);
    this.#executed.add(id);
    const approvals = this.#approved.get(call)?.size ?? 0;
    if (approvals === 0)
      findings.report(
        new Violation('a tool runs only when a person has approved its call', `${id}: ${call}`),
      );
    else if (executions > approvals)
      findings.report(
        new Violation(
          'a tool runs once for each approval',
          `${call}: ${executions} executions, ${approvals} approvals`,
        ),
      );
  }

  #closed(conversation: Conversation): void {
    const { status } = conversation;
    for (const { id, outcome } of status?.closedApprovals ?? []) {
      if (outcome !== 'Withdrawn' || this.#withdrawn.has(id)) continue;
      this.#withdrawn.add(id);
      const stored = this.#storedOf(conversation);
      if (stored === undefined) continue;
      if (stored.question?.id === id)
        this.#options.findings.report(
          new Violation('a question stays for as long as its agent asks', id),
        );
      // Only the status of an agent that runs says that it will not ask again.
      if (
        stored.lostCall !== undefined &&
        stored.lostCall === this.#calls.get(id) &&
        this.#isOff(conversation)
      )
        this.#options.findings.report(new Violation('a pause keeps the question', id));
      if (this.#executed.has(id) && this.#approvedByAnswer(id))
        this.#options.findings.report(
          new Violation('an answer that the agent has is not reported as withdrawn', id),
        );
    }
  }

  #approvedByAnswer(id: string): boolean {
    return this.#approved.get(this.#calls.get(id) ?? '')?.has(id) === true;
  }

  /** Whether the sandbox is off, and the run is not over. */
  #isOff({ status }: Conversation): boolean {
    if (['finished', 'error', 'stuck'].includes(status?.executionStatus ?? '')) return false;
    const sandbox = this.#options.cluster.sandboxOf(status?.sandboxUID ?? '');
    return sandbox !== undefined && viewOfSandbox(sandbox).phase === 'PAUSED';
  }

  /** The conversation of the agent, also of one that does not run; undefined once it is gone. */
  #storedOf(conversation: Conversation): StoredConversation | undefined {
    const { cluster, node } = this.#options;
    const sandbox = cluster.sandboxOf(conversation.status?.sandboxUID ?? '');
    const claim = cluster.claims.find(({ metadata }) => metadata.name === sandbox?.metadata.name);
    return node
      .volumeOf(claim?.metadata.uid ?? '')
      ?.conversations.get(conversationIdOf(conversation));
  }
}

const isOn = ({ spec }: Sandbox): boolean => spec.replicas === 1;
