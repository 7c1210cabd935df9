import { conversations, type Conversation } from '../../src/resources/conversation.ts';
import { sandboxes, type Sandbox } from '../../src/resources/sandbox.ts';
import type { AgentProcess, StoredConversation } from './agent-process.ts';
import type { Change, Cluster } from './cluster.ts';
import type { Findings } from './findings.ts';
import type { SimulatedNode } from './node.ts';
import { Violation } from './safety.ts';

export interface TenantCheckOptions {
  readonly cluster: Cluster;
  readonly node: Pick<SimulatedNode, 'running'>;
  readonly findings: Findings;
}

const rule = 'no text of an owner reaches a sandbox of another owner';

/**
 * Checks what agents have received against `spec.owner` of the sandbox behind their pod and of the
 * conversation that it belongs to. No name, reference or status of an object counts.
 */
export class TenantCheck {
  readonly #options: TenantCheckOptions;
  /** By the UID of a conversation. */
  readonly #ownerOf = new Map<string, string>();
  /** By the text of a message: those who have sent it. */
  readonly #senders = new Map<string, Set<string>>();
  /** By the UID of a sandbox: every owner that it has had. A warm sandbox has none. */
  readonly #ownersOfSandbox = new Map<string, Set<string>>();
  /** The number of messages that were checked, by the process that has them. */
  readonly #checked = new WeakMap<AgentProcess, Map<StoredConversation, number>>();

  constructor(options: TenantCheckOptions) {
    this.#options = options;
    options.cluster.onChange((change) => this.#observe(change));
  }

  /** After every step. */
  check(): void {
    for (const process of this.#options.node.running) {
      const checked = this.#checked.get(process) ?? new Map<StoredConversation, number>();
      this.#checked.set(process, checked);
      for (const stored of process.volume.conversations.values()) {
        if (checked.get(stored) === stored.messages.length) continue;
        checked.set(stored, stored.messages.length);
        this.#mustBeOwn(
          process,
          [this.#ownerOf.get(stored.uid ?? '')],
          `conversation ${stored.id}`,
        );
        for (const text of stored.messages)
          this.#mustBeOwn(process, [...(this.#senders.get(text) ?? [])], text);
      }
    }
  }

  /** An agent takes a command, which is a step of the start of a conversation. */
  commanded(process: AgentProcess, command: string): void {
    const [, step = '', uid = ''] = /^set -- '(\w+)' '([\w-]+)'/.exec(command) ?? [];
    try {
      this.#mustBeOwn(process, [this.#ownerOf.get(uid)], `the step ${step} of ${uid}`);
    } catch (error) {
      if (!(error instanceof Violation)) throw error;
      this.#options.findings.report(error);
    }
  }

  /** Sentences about conversations that show a sandbox of another owner. */
  unsettled(): readonly string[] {
    return this.#options.cluster.conversations.flatMap(({ metadata, spec, status }) => {
      const owners = this.#ownersOfSandbox.get(status?.sandboxUID ?? '');
      return owners === undefined || owners.has(spec.owner)
        ? []
        : [`conversation ${metadata.name} of ${spec.owner} is in a sandbox of ${named(owners)}`];
    });
  }

  /** A text that no known owner has sent is the agent's own, or came from a client with its key. */
  #mustBeOwn(
    { sandboxUid }: AgentProcess,
    senders: readonly (string | undefined)[],
    what: string,
  ): void {
    const owners = this.#ownersOfSandbox.get(sandboxUid);
    const known = senders.filter((sender) => sender !== undefined);
    if (owners === undefined || known.length === 0) return;
    if (owners.size === 1 && known.some((sender) => owners.has(sender))) return;
    throw new Violation(
      rule,
      `${what} of ${known.join(' or ')} in a sandbox of ${named(owners)} (${sandboxUid})`,
    );
  }

  #observe({ plural, object }: Change): void {
    if (plural === conversations.plural) this.#learn(object as Conversation);
    if (plural !== sandboxes.plural) return;
    const { metadata, spec } = object as Sandbox;
    const owners = this.#ownersOfSandbox.get(metadata.uid) ?? new Set();
    if (spec.owner !== '') owners.add(spec.owner);
    this.#ownersOfSandbox.set(metadata.uid, owners);
  }

  #learn({ metadata: { uid }, spec }: Conversation): void {
    const { owner, initialMessage, messages = [] } = spec;
    this.#ownerOf.set(uid, owner);
    for (const message of [
      ...(initialMessage === undefined ? [] : [initialMessage]),
      ...messages,
    ]) {
      const text = message.content.map((part) => part.text ?? '').join('\n');
      this.#senders.set(text, (this.#senders.get(text) ?? new Set()).add(owner));
    }
  }
}

const named = (owners: ReadonlySet<string>): string =>
  owners.size === 0 ? 'no owner' : [...owners].join(' and ');
