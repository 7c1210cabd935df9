import {
  createHash,
  createHmac,
  createSecretKey,
  hkdfSync,
  timingSafeEqual,
  type KeyObject,
} from 'node:crypto';
import { uuidOfBytes } from '../resources/ids.ts';

type Purpose =
  'session' | 'client' | 'secret' | 'bootstrap' | 'clone' | 'git' | 'tools' | 'secrets' | 'models';

export interface RepositoryAddress {
  readonly provider: string;
  /** `owner/name`, without `.git`. */
  readonly repository: string;
}

/** Inputs of a client's session key, in addition to the UID of the sandbox. */
export interface ClientGrant {
  /** UID of the API key whose holder receives the session key. */
  readonly apiKeyUid: string;
  /** Number of rotations of the sandbox's session keys. */
  readonly generation: number;
}

/** Minimum bytes of a master key: the length of a random 256 bit key. */
const minMasterKeyBytes = 32;
/** Maximum cached keys of about 200 bytes. The API returns a key with each running sandbox. */
const maxRemembered = 20_000;

interface ClientKey {
  readonly keyId: string;
  readonly generation: number;
  readonly key: string;
}

/**
 * Derives the keys of a sandbox's agent from a master key and the sandbox's UID. No process stores
 * the derived keys, and every replica derives the same ones.
 *
 * The keys never change during the life of the sandbox: with another secret key the agent could not
 * read its own files, and clients keep the session key. Therefore a sandbox stores the id of its
 * master key, which is the `currentKeyId` at its creation and not secret. A new master key at the
 * first position changes only the keys of new sandboxes.
 */
export class SandboxKeys {
  #masterKeys: ReadonlyMap<string, KeyObject> = new Map();
  /** Keys by the master key's id and the sandbox's UID. Nested maps are faster than joined keys. */
  readonly #sessionKeys = new Map<string, Map<string, string>>();
  /** Session keys by the UID of the API key and the UID of the sandbox. */
  readonly #clientKeys = new Map<string, Map<string, ClientKey>>();
  #remembered = 0;
  #currentKeyId = '';
  #sealKeys: ReadonlyMap<string, Buffer> = new Map();
  readonly #replaced = new Set<() => void>();

  /** New sandboxes use the first master key; existing sandboxes may use the others. */
  constructor(masterKeys: readonly Buffer[]) {
    this.replace(masterKeys);
  }

  /** Id of the master key for new sandboxes. The id reveals nothing about the key. */
  get currentKeyId(): string {
    return this.#currentKeyId;
  }

  /** Replaces the master keys. Invalid keys throw as in the constructor and change nothing. */
  replace(masterKeys: readonly Buffer[]): void {
    const [current] = masterKeys;
    if (current === undefined) throw new Error('at least one master key is needed');
    if (masterKeys.some(({ length }) => length < minMasterKeyBytes)) {
      throw new Error(`a master key has to have at least ${minMasterKeyBytes} bytes`);
    }
    this.#masterKeys = new Map(masterKeys.map((key) => [keyIdOf(key), createSecretKey(key)]));
    this.#sealKeys = new Map(masterKeys.map((key) => [keyIdOf(key), sealKeyOf(key)]));
    this.#forget();
    this.#currentKeyId = keyIdOf(current);
    for (const listener of this.#replaced) listener();
  }

  /** Calls the listener after each `replace`. Returns a function that removes the listener. */
  onReplaced(listener: () => void): () => void {
    this.#replaced.add(listener);
    return () => void this.#replaced.delete(listener);
  }

  /**
   * Key that the agent demands in `X-Session-API-Key`, constant for the life of the sandbox. The
   * gateway replaces the client's key by this key. Throws for an unknown `keyId`.
   */
  sessionKey(sandboxUid: string, keyId = this.currentKeyId): string {
    const known = this.#sessionKeys.get(keyId)?.get(sandboxUid);
    if (known !== undefined) return known;
    const key = this.#derive(sandboxUid, 'session', keyId);
    this.#remember(this.#sessionKeys, keyId, sandboxUid, key);
    return key;
  }

  knows(keyId = this.currentKeyId): boolean {
    return this.#masterKeys.has(keyId);
  }

  /**
   * Session key that clients send to the gateway: a reference to the client's API key, and a MAC.
   * The key is valid while the API key is valid, until a rotation. Throws for an unknown `keyId`.
   */
  clientKey(
    sandboxUid: string,
    { apiKeyUid, generation }: ClientGrant,
    keyId = this.currentKeyId,
  ): string {
    const known = this.#clientKeys.get(apiKeyUid)?.get(sandboxUid);
    if (known !== undefined && known.generation === generation && known.keyId === keyId)
      return known.key;
    if (apiKeyUid === '') throw new Error('the uid of an API key is needed');
    const mac = createHmac('sha256', this.#derive(sandboxUid, 'client', keyId))
      .update(`${generation}/${apiKeyUid}`)
      .digest('base64url');
    const key = `${sessionReferenceOf(apiKeyUid)}${mac}`;
    this.#remember(this.#clientKeys, apiKeyUid, sandboxUid, { keyId, generation, key });
    return key;
  }

  /**
   * Returns one UUIDv8 of a text for each master key. The first belongs to the current key. Every
   * replica returns the same UUIDs, and nobody can compute a UUID without a master key. During a
   * rotation, the other UUIDs find objects that were named under an earlier master key.
   */
  derivedIds(text: string): readonly string[] {
    return Array.from(this.#masterKeys.values(), (masterKey) => {
      const key = createHmac('sha256', masterKey).update('ids').digest();
      return uuidOfBytes(createHmac('sha256', key).update(text).digest());
    });
  }

  /** Keys of 32 bytes that encrypt browser sessions: one per master key, the current one first. */
  sessionSealKeys(): readonly Buffer[] {
    return Array.from(this.#masterKeys.values(), (masterKey) =>
      createHmac('sha256', masterKey).update('browser-sessions').digest(),
    );
  }

  /**
   * Keys of 32 bytes that encrypt the secrets of owners, by the id of the master key. The current
   * key encrypts. The others decrypt until all secrets are encrypted under the current key.
   */
  sealKeys(): ReadonlyMap<string, Buffer> {
    return this.#sealKeys;
  }

  /**
   * Returns a MAC for each master key, over the secrets in a request that starts a conversation;
   * the first is under the current key. A MAC reveals no secret, and nobody can compute it without
   * a master key. During a rotation, the others match requests stored under earlier keys.
   */
  startSecretsMacs(text: string): readonly string[] {
    return Array.from(this.#masterKeys.values(), (masterKey) => {
      const key = createHmac('sha256', masterKey).update('start-secrets').digest();
      return createHmac('sha256', key).update(text).digest('hex');
    });
  }

  /** Key with which the agent encrypts the secrets in its files. */
  secretKey(sandboxUid: string, keyId = this.currentKeyId): string {
    return this.#derive(sandboxUid, 'secret', keyId);
  }

  /** Key for `initialise` only, because the agent's shell can read it in the pod's environment. */
  bootstrapKey(sandboxUid: string, keyId = this.currentKeyId): string {
    return this.#derive(sandboxUid, 'bootstrap', keyId);
  }

  /** Key that authenticates only the notifications of the gateways to the operators. */
  notificationKey(): string {
    return notificationKeyOf(this.#masterKey(this.currentKeyId));
  }

  /** Whether the candidate is a `notificationKey` of any master key. Compares in constant time. */
  acceptsNotificationKey(candidate: string): boolean {
    return this.#isAny(candidate, (keyId) => notificationKeyOf(this.#masterKey(keyId)));
  }

  /** Whether `textOf` returns the candidate for a master key. Compares all in constant time. */
  #isAny(candidate: string, textOf: (keyId: string) => string): boolean {
    const given = digest(candidate);
    let accepted = false;
    for (const keyId of this.#masterKeys.keys())
      if (timingSafeEqual(given, digest(textOf(keyId)))) accepted = true;
    return accepted;
  }

  #masterKey(keyId: string): KeyObject {
    const masterKey = this.#masterKeys.get(keyId);
    if (masterKey === undefined)
      throw new Error(`the master key ${keyId} is not among those given`);
    return masterKey;
  }

  /**
   * Ticket with which a sandbox clones one repository through the gateway, which adds the
   * credential of the owner: `<expiry in seconds since 1970>.<MAC>`.
   */
  cloneTicket(
    sandboxUid: string,
    address: RepositoryAddress,
    endMs: number,
    keyId = this.currentKeyId,
  ): string {
    const end = String(Math.ceil(endMs / 1000));
    return `${end}.${ticketMac(this.#derive(sandboxUid, 'clone', keyId), address, end)}`;
  }

  /** Whether the ticket is valid for this sandbox and repository. Compares in constant time. */
  acceptsCloneTicket(
    sandboxUid: string,
    address: RepositoryAddress,
    ticket: string,
    nowMs: number,
  ): boolean {
    const end = /^(\d{1,12})\./.exec(ticket)?.[1] ?? '0';
    const accepted = this.#isAny(ticket, (keyId) => {
      const key = this.#derive(sandboxUid, 'clone', keyId);
      return `${end}.${ticketMac(key, address, end)}`;
    });
    return accepted && nowMs < Number(end) * 1000;
  }

  /**
   * Constant password with which git in a sandbox uses the git hosts behind the gateway. All
   * processes of the sandbox can read the token, so the gateway also authorizes each request.
   * Throws for an unknown `keyId`.
   */
  gitToken(sandboxUid: string, keyId = this.currentKeyId): string {
    return this.#derive(sandboxUid, 'git', keyId);
  }

  /** Whether the candidate is a `gitToken` under any master key. Compares in constant time. */
  acceptsGitToken(sandboxUid: string, candidate: string): boolean {
    return this.#isAny(candidate, (keyId) => this.gitToken(sandboxUid, keyId));
  }

  /** Constant token of an agent for the gateway's MCP tools. Throws for an unknown `keyId`. */
  toolsToken(sandboxUid: string, keyId = this.currentKeyId): string {
    return this.#derive(sandboxUid, 'tools', keyId);
  }

  /** Whether the candidate is a `toolsToken` under any master key. Compares in constant time. */
  acceptsToolsToken(sandboxUid: string, candidate: string): boolean {
    return this.#isAny(candidate, (keyId) => this.toolsToken(sandboxUid, keyId));
  }

  /**
   * Constant token with which an agent reads the secrets of its conversations from the gateway. All
   * processes of the sandbox can read the token, so the gateway also authorizes each request.
   * Throws for an unknown `keyId`.
   */
  secretsToken(sandboxUid: string, keyId = this.currentKeyId): string {
    return this.#derive(sandboxUid, 'secrets', keyId);
  }

  /** Whether the candidate is a `secretsToken` under any master key. Compares in constant time. */
  acceptsSecretsToken(sandboxUid: string, candidate: string): boolean {
    return this.#isAny(candidate, (keyId) => this.secretsToken(sandboxUid, keyId));
  }

  /**
   * Constant token with which the agent of one conversation uses its model through the gateway, in
   * place of the model's API key. Throws for an unknown `keyId`, and for an empty id.
   */
  modelsToken(sandboxUid: string, conversationId: string, keyId = this.currentKeyId): string {
    if (conversationId === '') throw new Error('the id of a conversation is needed');
    return createHmac('sha256', this.#derive(sandboxUid, 'models', keyId))
      .update(conversationId)
      .digest('base64url');
  }

  /** Whether the candidate is a `modelsToken` under any master key. Compares in constant time. */
  acceptsModelsToken(sandboxUid: string, conversationId: string, candidate: string): boolean {
    return this.#isAny(candidate, (keyId) => this.modelsToken(sandboxUid, conversationId, keyId));
  }

  #remember<T>(keys: Map<string, Map<string, T>>, first: string, second: string, value: T): void {
    if (this.#remembered >= maxRemembered) this.#forget();
    const inner = keys.get(first) ?? new Map<string, T>();
    if (!inner.has(second)) this.#remembered += 1;
    keys.set(first, inner.set(second, value));
  }

  #forget(): void {
    this.#sessionKeys.clear();
    this.#clientKeys.clear();
    this.#remembered = 0;
  }

  #derive(sandboxUid: string, purpose: Purpose, keyId: string): string {
    const masterKey = this.#masterKeys.get(keyId);
    if (masterKey === undefined)
      throw new Error(
        `the sandbox was made under the master key ${keyId}, which is not among those given`,
      );
    // An empty UID would give the same keys to all sandboxes.
    if (sandboxUid === '') throw new Error('a sandbox uid is needed');
    return createHmac('sha256', masterKey).update(`${sandboxUid}/${purpose}`).digest('base64url');
  }
}

/** The name of a provider has no slash, so that two different inputs never give the same text. */
const ticketMac = (key: string, { provider, repository }: RepositoryAddress, end: string): string =>
  createHmac('sha256', key).update(`${end}/${provider}/${repository}`).digest('base64url');

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

const referenceLength = 16;
/** Part of a session key that names its API key: 96 bits of a hash of the UID. Not secret. */
export const sessionReferenceOf = (apiKeyUid: string): string =>
  createHash('sha256').update(apiKeyUid).digest('base64url').slice(0, referenceLength);
export const referenceIn = (clientKey: string): string => clientKey.slice(0, referenceLength);

/** This key differs from all keys of sandboxes: their inputs have a slash, and this has none. */
const notificationKeyOf = (masterKey: KeyObject): string =>
  createHmac('sha256', masterKey).update('notifications').digest('base64url');

/** HKDF gives another key than the HMACs above, whatever their input is. */
const sealKeyOf = (masterKey: Buffer): Buffer =>
  Buffer.from(hkdfSync('sha256', masterKey, '', 'owner-settings/v1', 32));

const keyIdOf = (masterKey: Buffer): string =>
  createHmac('sha256', masterKey).update('key-id').digest('hex').slice(0, 12);
