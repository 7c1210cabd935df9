import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Commands } from './commands.ts';
import { Conversation } from './conversation.ts';
import type { ConversationHost } from './run-view.ts';
import type { NewMessage } from './drafts.ts';
import { unfinishedPrefix } from './durable-files.ts';
import { HttpError } from './router.ts';
import { storedMcpServers, type McpServer } from './mcp-servers.ts';
import { McpTools } from './mcp-tools.ts';
import type { Meta } from './meta.ts';
import type {
  ChooseProgram,
  Model,
  Program,
  ProgramLink,
  ProgramPlace,
  Programs,
} from './program.ts';
import { type SecretBox, isVariable, Secrets } from './secrets.ts';
import { commandEnvironment } from './settings.ts';

export interface ConversationsOptions {
  readonly path: string;
  readonly env: Readonly<Record<string, string>>;
  readonly secretBox: SecretBox;
  readonly commands: Commands;
  readonly programs: Programs;
  readonly maxConcurrentRuns: number;
  readonly touch: () => void;
  /** Called for each conversation that was created or found on the disk. */
  readonly onOpen: (conversation: Conversation) => void;
  readonly onError: (message: string, error: unknown) => void;
}

const defaultRetries = 2;
/** Maximum duration of reading all secrets for a process of an agent. */
const agentSecretsMs = 10_000;
const folderName = /^[0-9a-f]{32}$/;

export class Conversations {
  readonly #options: ConversationsOptions;
  readonly #host: ConversationHost;
  readonly #secrets: Secrets;
  readonly #all = new Map<string, Conversation>();
  readonly #creating = new Map<string, Promise<Conversation>>();
  /** Programs with a process that outlives a run, by id of the conversation. */
  readonly #lasting = new Map<string, Program>();
  readonly #choose: ChooseProgram;

  private constructor(options: ConversationsOptions) {
    this.#options = options;
    this.#secrets = new Secrets(options.secretBox);
    this.#choose = options.programs(options.env);
    this.#host = {
      commands: options.commands,
      touch: options.touch,
      onError: options.onError,
      programFor: (meta, link) => {
        const program = this.#lasting.get(meta.id) ?? this.#choose(this.#placeOf(meta, link));
        if (program.close !== undefined) this.#lasting.set(meta.id, program);
        return program;
      },
      release: async ({ id }) => {
        await this.#lasting.get(id)?.close?.();
        this.#lasting.delete(id);
        this.#secrets.forget({ id });
      },
      environmentFor: (meta, command, signal) => this.#environmentFor(meta, command, signal),
      toolsFor: (meta) =>
        new McpTools({
          servers: () => this.#mcpServersOf(meta),
          needles: () => this.#secrets.needlesOf(meta),
        }),
      needlesOf: (meta) => this.#secrets.needlesOf(meta),
    };
  }

  /** Loads all conversations. Throws SettingsError for an invalid setting of the environment. */
  static async open(options: ConversationsOptions): Promise<Conversations> {
    const conversations = new Conversations(options);
    await mkdir(options.path, { recursive: true });
    for (const name of await readdir(options.path)) {
      if (name.startsWith(unfinishedPrefix))
        await rm(join(options.path, name), { recursive: true, force: true });
      if (folderName.test(name)) await conversations.#load(name);
    }
    return conversations;
  }

  get(id: string): Conversation | undefined {
    return this.#all.get(id);
  }

  /** Returns the conversations, newest first. */
  list(): readonly Conversation[] {
    return [...this.#all.values()].sort((a, b) => (a.meta.createdAt < b.meta.createdAt ? 1 : -1));
  }

  /** Creates a conversation with its first message; once per id, even for concurrent calls. */
  async create(
    meta: Meta,
    message: NewMessage | undefined,
  ): Promise<{ readonly conversation: Conversation; readonly created: boolean }> {
    const present = this.#all.get(meta.id) ?? (await this.#creating.get(meta.id));
    if (present !== undefined) return { conversation: present, created: false };
    if (message !== undefined)
      this.assertRoomForRun('Conversation run limit reached. Retry the request later.');
    const creating = Conversation.create(
      join(this.#options.path, meta.id),
      meta,
      message,
      this.#host,
    );
    this.#creating.set(meta.id, creating);
    try {
      const conversation = await creating;
      this.#all.set(meta.id, conversation);
      this.#options.onOpen(conversation);
      return { conversation, created: true };
    } finally {
      this.#creating.delete(meta.id);
    }
  }

  async delete(conversation: Conversation): Promise<void> {
    this.#all.delete(conversation.meta.id);
    await conversation.delete();
  }

  hasRoomForRun(): boolean {
    return (
      [...this.#all.values()].filter(({ status }) => status === 'running').length <
      this.#options.maxConcurrentRuns
    );
  }

  assertRoomForRun(detail: string): void {
    if (!this.hasRoomForRun()) throw new HttpError(429, detail);
  }

  /** Pauses running conversations and kills their commands. */
  async close(): Promise<void> {
    await Promise.all(
      [...this.#creating.values()].map((creating) => creating.catch(() => undefined)),
    );
    await Promise.all([...this.#all.values()].map((conversation) => conversation.close()));
  }

  async #load(name: string): Promise<void> {
    try {
      const conversation = await Conversation.load(join(this.#options.path, name), this.#host);
      this.#all.set(name, conversation);
      this.#options.onOpen(conversation);
    } catch (error) {
      // The conversation stays on the disk for a repair. Other conversations are not affected.
      this.#options.onError(`conversation ${name} cannot be read and is ignored`, error);
    }
  }

  /**
   * Completes the settings of the request by the variables `LLM_…`. `LLM_API_KEY` is sent only to
   * the endpoint of the environment, so that a request cannot redirect this key.
   */
  #modelOf({ llm }: Meta): Model | undefined {
    const { env, secretBox } = this.#options;
    const present = (name: string) => (env[name] === '' ? undefined : env[name]);
    const model = llm?.model === '' ? present('LLM_MODEL') : (llm?.model ?? present('LLM_MODEL'));
    const ownKey = llm?.sealedApiKey === undefined ? undefined : secretBox.open(llm.sealedApiKey);
    const apiKey = ownKey ?? (llm?.baseUrl === undefined ? present('LLM_API_KEY') : undefined);
    const baseUrl = llm?.baseUrl ?? present('LLM_BASE_URL');
    if (model === undefined || (apiKey === undefined && baseUrl === undefined)) return undefined;
    return {
      model: model.replace(/^openai\//, ''),
      baseUrl,
      apiKey,
      retries: llm?.retries ?? defaultRetries,
    };
  }

  #placeOf(meta: Meta, link: ProgramLink): ProgramPlace {
    const { env, path, commands } = this.#options;
    return {
      model: this.#modelOf(meta),
      home: join(path, meta.id, 'home'),
      env: commandEnvironment(env),
      guard: commands.guard,
      mcpServers: () => this.#mcpServersOf(link.meta),
      readSecrets: (signal) =>
        this.#secrets.read(link.meta, () => true, { signal, totalMs: agentSecretsMs }),
      needles: () => this.#secrets.needlesOf(link.meta),
      link,
    };
  }

  #mcpServersOf({ sealedMcpServers: sealed }: Meta): readonly McpServer[] {
    return sealed === undefined ? [] : storedMcpServers(this.#options.secretBox.open(sealed));
  }

  async #environmentFor(meta: Meta, command: string, signal: AbortSignal) {
    const { values, unread } = await this.#secrets.read(meta, (name) => command.includes(name), {
      signal,
    });
    const variables = [...values].filter(([name, value]) => isVariable(name, value));
    return {
      env: { ...commandEnvironment(this.#options.env), ...Object.fromEntries(variables) },
      unread,
    };
  }
}
