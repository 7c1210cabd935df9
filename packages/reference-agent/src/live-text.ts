import { randomUUID } from 'node:crypto';
import { eventTime } from './events.ts';
import { LiveActivity } from './live-activity.ts';
import { maskText, noNeedles, type Needles } from './mask.ts';

/** A piece of a message or a thought that grows. */
export interface Said {
  readonly kind: 'message' | 'thought';
  readonly text: string;
}

/** A piece of a text for connected clients, as the protocol has it; no log stores it. */
export interface StreamingDelta {
  readonly kind: 'StreamingDeltaEvent';
  readonly id: string;
  readonly timestamp: string;
  readonly source: 'agent';
  readonly content: string | null;
  readonly reasoning_content: string | null;
}

/** Delay in which pieces are collected. */
const intervalMs = 250;
/** Maximum characters of one piece. The rest of a text reaches clients with its stored event. */
const maxCharacters = 100_000;

/**
 * The text that an agent writes now, for the clients that are connected now, and in the activity
 * for those that ask. Without a listener, nothing is sent.
 */
export class LiveText {
  readonly #listeners = new Set<(delta: StreamingDelta) => void>();
  #waiting: Record<Said['kind'], string> | undefined;
  #timer: NodeJS.Timeout | undefined;
  readonly #needles: () => Needles;
  readonly #activity: LiveActivity;

  /** Takes a function that returns the texts to hide. */
  constructor(needles: () => Needles = () => noNeedles, activity = new LiveActivity()) {
    this.#needles = needles;
    this.#activity = activity;
  }

  /** Returns a function that removes the listener. */
  subscribe(listener: (delta: StreamingDelta) => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) this.#forget();
    };
  }

  say({ kind, text }: Said): void {
    this.#activity.say({ kind, text });
    if (this.#listeners.size === 0) return;
    const waiting = (this.#waiting ??= { message: '', thought: '' });
    waiting[kind] += text.slice(0, maxCharacters - waiting[kind].length);
    this.#timer ??= setTimeout(() => this.#send(), intervalMs);
  }

  /** Sends the waiting piece, because the stored event of its text follows. */
  flush(): void {
    this.#activity.endText();
    this.#send();
  }

  /** Takes the whole output of a tool call so far. */
  output(callId: string, whole: string): void {
    this.#activity.replace(callId, whole);
  }

  #send(): void {
    const waiting = this.#waiting;
    this.#forget();
    if (waiting === undefined) return;
    const delta: StreamingDelta = {
      ...{ kind: 'StreamingDeltaEvent', id: randomUUID(), source: 'agent' },
      timestamp: eventTime(Date.now() * 1000),
      content: this.#shown(waiting.message),
      reasoning_content: this.#shown(waiting.thought),
    };
    for (const listener of this.#listeners) listener(delta);
  }

  /**
   * The pieces of a message were masked as they arrived. Joined here, those on both sides of a
   * thought may form a secret.
   */
  #shown(text: string): string | null {
    return text === '' ? null : maskText(text, this.#needles());
  }

  /** Forgets the waiting piece, because no event will hold its text. */
  drop(): void {
    this.#activity.endText();
    this.#forget();
  }

  #forget(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#waiting = undefined;
  }
}
