import type { Clock, Timer } from '@conversation-operator/base/clock';
import type { Sandbox } from '../../resources/sandbox.ts';
import type { KeyRing } from '../auth/key-ring.ts';
import type { ObjectFeed } from '../lookup/object-feed.ts';
import type { Opening, SessionKeys } from '../auth/session-keys.ts';

/** Delay between two checks whether API keys have expired. */
const sweepMs = 1000;

/** All requests and WebSockets under way that one session key has opened at one sandbox. */
interface Session {
  readonly sandbox: string;
  readonly key: string;
  readonly endings: Set<() => void>;
  opening: Opening;
}

interface SandboxSessions {
  readonly byKey: Map<string, Session>;
  readonly unsubscribe: () => void;
}

export interface OpenSessionsOptions {
  readonly keys: Pick<SessionKeys, 'opening'>;
  readonly ring: Pick<KeyRing, 'onChange'>;
  readonly feed: Pick<ObjectFeed<Sandbox>, 'on'>;
  readonly find: (name: string) => Sandbox | undefined;
  readonly clock: Clock;
}

/**
 * Ends the requests and WebSockets of a session key as soon as the key no longer opens the sandbox:
 * after a rotation, and when its API key, or an API key that this one depends on, is revoked,
 * disabled or expired. A change of an API key or a sandbox is checked against its own sessions
 * only, so that one owner's changes cost nothing for the sessions of others.
 */
export class OpenSessions {
  readonly #options: OpenSessionsOptions;
  readonly #bySandbox = new Map<string, SandboxSessions>();
  readonly #byApiKey = new Map<string, Set<Session>>();
  #sweep: Timer | undefined;
  #expiring = 0;

  constructor(options: OpenSessionsOptions) {
    this.#options = options;
    options.ring.onChange((uid) => {
      for (const session of [...(this.#byApiKey.get(uid) ?? [])])
        this.#review(session, options.find(session.sandbox));
    });
  }

  /** Pairs of a sandbox and a session key with something under way. */
  get size(): number {
    let size = 0;
    for (const { byKey } of this.#bySandbox.values()) size += byKey.size;
    return size;
  }

  /**
   * Registers a request or a WebSocket, and returns the function that the caller calls at its end.
   * `end` is called when one of the keys no longer opens the sandbox. Undefined unless all keys
   * open the sandbox now.
   */
  begin(sandbox: Sandbox, keys: readonly string[], end: () => void): (() => void) | undefined {
    const sessions = keys.map((key) => this.#sessionOf(sandbox, key));
    const found = sessions.filter((session) => session !== undefined);
    const over = () => {
      for (const session of found) {
        session.endings.delete(end);
        if (session.endings.size === 0) this.#forget(session);
      }
    };
    if (found.length < sessions.length) {
      over();
      return undefined;
    }
    for (const session of found) session.endings.add(end);
    return over;
  }

  close(): void {
    this.#sweep?.cancel();
    this.#sweep = undefined;
    for (const { unsubscribe } of this.#bySandbox.values()) unsubscribe();
    this.#bySandbox.clear();
    this.#byApiKey.clear();
  }

  #sessionOf(sandbox: Sandbox, key: string): Session | undefined {
    const { name } = sandbox.metadata;
    const opening = this.#options.keys.opening(sandbox, key);
    if (opening === undefined) return undefined;
    const known = this.#bySandbox.get(name);
    const session = known?.byKey.get(key);
    if (session !== undefined) return session;
    const made: Session = { sandbox: name, key, endings: new Set(), opening };
    const sessions = known ?? {
      byKey: new Map<string, Session>(),
      unsubscribe: this.#options.feed.on(name, (object) => this.#reviewAll(name, object)),
    };
    if (known === undefined) this.#bySandbox.set(name, sessions);
    sessions.byKey.set(key, made);
    this.#index(made);
    return made;
  }

  #reviewAll(name: string, sandbox: Sandbox | undefined): void {
    for (const session of [...(this.#bySandbox.get(name)?.byKey.values() ?? [])])
      this.#review(session, sandbox);
  }

  #review(session: Session, sandbox: Sandbox | undefined): void {
    const opening = sandbox && this.#options.keys.opening(sandbox, session.key);
    if (opening === undefined) {
      this.#end(session);
      return;
    }
    this.#unindex(session);
    session.opening = opening;
    this.#index(session);
  }

  #end(session: Session): void {
    this.#forget(session);
    for (const end of [...session.endings]) end();
  }

  #forget(session: Session): void {
    const sessions = this.#bySandbox.get(session.sandbox);
    if (sessions?.byKey.get(session.key) !== session) return;
    this.#unindex(session);
    sessions.byKey.delete(session.key);
    if (sessions.byKey.size > 0) return;
    sessions.unsubscribe();
    this.#bySandbox.delete(session.sandbox);
  }

  #index(session: Session): void {
    for (const uid of session.opening.apiKeyUids) {
      const sessions = this.#byApiKey.get(uid) ?? new Set();
      this.#byApiKey.set(uid, sessions.add(session));
    }
    if (session.opening.expiresAtMs === Infinity) return;
    this.#expiring += 1;
    this.#keepSweeping();
  }

  #unindex(session: Session): void {
    for (const uid of session.opening.apiKeyUids) {
      const sessions = this.#byApiKey.get(uid);
      sessions?.delete(session);
      if (sessions?.size === 0) this.#byApiKey.delete(uid);
    }
    if (session.opening.expiresAtMs !== Infinity) this.#expiring -= 1;
  }

  #keepSweeping(): void {
    const { clock } = this.#options;
    this.#sweep ??= clock.after(sweepMs, () => {
      this.#sweep = undefined;
      const now = clock.now();
      for (const { byKey } of [...this.#bySandbox.values()]) {
        for (const session of [...byKey.values()])
          if (session.opening.expiresAtMs <= now) this.#end(session);
      }
      if (this.#expiring > 0) this.#keepSweeping();
    });
  }
}
