import type { Sandbox } from '../../resources/sandbox.ts';
import type { KeyRing } from '../auth/key-ring.ts';
import type { SessionKeys } from '../auth/session-keys.ts';
import type { ObjectFeed } from '../lookup/object-feed.ts';

/** All requests and WebSockets under way that one session key has opened at one sandbox. */
interface Session {
  readonly sandbox: string;
  readonly key: string;
  readonly endings: Set<() => void>;
  readonly unsubscribe: () => void;
  /** Ends the following of the API keys that the session key ends with. */
  unfollow: () => void;
}

export interface OpenSessionsOptions {
  readonly keys: Pick<SessionKeys, 'opening'>;
  readonly ring: Pick<KeyRing, 'follow'>;
  readonly feed: Pick<ObjectFeed<Sandbox>, 'on'>;
  readonly find: (name: string) => Sandbox | undefined;
}

/**
 * Ends the requests and WebSockets of a session key as soon as the key no longer opens the sandbox:
 * after a rotation, and when its API key, or an API key that this one depends on, is revoked,
 * disabled or expired. A change of an API key or a sandbox is checked against its own sessions
 * only, so that one owner's changes cost nothing for the sessions of others.
 */
export class OpenSessions {
  readonly #options: OpenSessionsOptions;
  /** By sandbox and session key. */
  readonly #sessions = new Map<string, Session>();

  constructor(options: OpenSessionsOptions) {
    this.#options = options;
  }

  /** Pairs of a sandbox and a session key with something under way. */
  get size(): number {
    return this.#sessions.size;
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
    for (const session of this.#sessions.values()) this.#forget(session);
  }

  #sessionOf(sandbox: Sandbox, key: string): Session | undefined {
    const { keys, feed } = this.#options;
    const { name } = sandbox.metadata;
    if (keys.opening(sandbox, key) === undefined) return undefined;
    const known = this.#sessions.get(`${name}/${key}`);
    if (known !== undefined) return known;
    const made: Session = {
      sandbox: name,
      key,
      endings: new Set(),
      unsubscribe: feed.on(name, (object) => this.#review(made, object)),
      unfollow: () => undefined,
    };
    this.#sessions.set(`${name}/${key}`, made);
    this.#review(made, sandbox);
    return made;
  }

  #review(session: Session, sandbox: Sandbox | undefined): void {
    const { keys, ring, find } = this.#options;
    if (this.#sessions.get(`${session.sandbox}/${session.key}`) !== session) return;
    const chain = sandbox && keys.opening(sandbox, session.key);
    session.unfollow();
    if (chain !== undefined)
      session.unfollow = ring.follow(chain, () => this.#review(session, find(session.sandbox)));
    else {
      this.#forget(session);
      for (const end of [...session.endings]) end();
    }
  }

  #forget(session: Session): void {
    const id = `${session.sandbox}/${session.key}`;
    if (this.#sessions.get(id) !== session) return;
    this.#sessions.delete(id);
    session.unsubscribe();
    session.unfollow();
  }
}
