import type { TokenUsage } from '../usage.ts';
import { JsonPieces } from './json-pieces.ts';
import { ModelApi } from './model-api.ts';
import { SseEvents } from './sse-events.ts';
import { type JsonObject, objectOf, usageIn } from './usage.ts';

/** The end of an answer of a provider, which the client has received unchanged. */
export interface Answer {
  /** Final and valid usage; undefined if there is none, or the answer broke off before its end. */
  readonly usage: TokenUsage | undefined;
  /** Whether the answer reached its end. One that reached the limit of its tokens did. */
  readonly isComplete: boolean;
  /** Whether the answer contains an error, although its status is 200. */
  readonly hasError: boolean;
}

/** Maximum bytes of an event, or of a field of a whole answer, that a reader keeps. */
export const maxPieceBytes = 1_048_576;

/**
 * Reads the usage of one answer beside its way to the client: whole JSON, a stream of events, and
 * Gemini's stream as a JSON list. `push` takes the bytes in parts of any length and never changes
 * them; the reader keeps at most `maxPieceBytes` of them.
 */
export class AnswerReader {
  readonly #api: ModelApi;
  readonly #source: SseEvents | JsonPieces;
  #usage: JsonObject | undefined;
  /** Whether no part of the answer that counts can follow. */
  #hasEnded = false;
  /** Whether the last usage of a chat is that of the whole chat, even if its end is lost. */
  #isFinalUsage = false;
  #hasError = false;
  /** Whether a part of an answer has come, or an event that is neither an error nor a ping. */
  #hasContent = false;
  #bytes = 0;

  constructor(api: ModelApi, contentType: string | undefined) {
    this.#api = api;
    this.#source = /^\s*text\/event-stream\b/i.test(contentType ?? '')
      ? new SseEvents(maxPieceBytes, (data, type) => {
          if (type === 'error') this.#hasError = true;
          else if (type !== 'ping') this.#hasContent ||= !hasErrorIn(parsed(data));
          this.#readEvent(data);
        })
      : new JsonPieces(maxPieceBytes, (json) => {
          this.#readPiece(json);
        });
  }

  /**
   * Whether the answer is nothing but an error so far, for which no provider charges. An error
   * after a part of the answer may be charged, like one whose end is missing.
   */
  get isOnlyError(): boolean {
    if (!this.#hasError || this.#hasContent || this.#bytes > maxPieceBytes) return false;
    return this.#source instanceof SseEvents || this.#source.isComplete;
  }

  /** Whether the answer is a stream that ends between two events at the moment. */
  get isBetweenEvents(): boolean {
    return this.#source instanceof SseEvents && this.#source.isBetweenEvents;
  }

  push(chunk: Buffer): void {
    this.#bytes += chunk.length;
    this.#source.push(chunk);
  }

  /** The result after the last byte of the answer, or where it broke off. */
  end(): Answer {
    const isComplete = this.#isComplete();
    const isFinal = isComplete || this.#isFinalUsage;
    return {
      usage: isFinal ? usageIn(this.#api, this.#usage) : undefined,
      isComplete,
      hasError: this.#hasError,
    };
  }

  #isComplete(): boolean {
    if (this.#source instanceof SseEvents) return this.#hasEnded;
    if (!this.#source.isComplete) return false;
    // A list of whole answers, of which each has a usage, is an answer of Gemini alone.
    return this.#api === ModelApi.Gemini ? this.#hasEnded : !this.#source.isList;
  }

  #readEvent(data: string): void {
    if (data === '[DONE]') {
      this.#hasEnded = this.#hasEnded || this.#api === ModelApi.OpenAiChat;
      return;
    }
    const value = parsed(data);
    if (value === undefined) return;
    this.#readError(value);
    switch (this.#api) {
      case ModelApi.OpenAiChat:
        if (objectOf(value['usage']) !== undefined) {
          this.#usage = objectOf(value['usage']);
          this.#isFinalUsage = Array.isArray(value['choices']) && value['choices'].length === 0;
        } else if (this.#isFinalUsage && isFilled(value['choices'])) {
          // The usage was that of a part, because more of the answer has come.
          this.#usage = undefined;
          this.#isFinalUsage = false;
        }
        break;
      case ModelApi.OpenAiResponses:
        this.#readResponseEvent(value);
        break;
      case ModelApi.AnthropicMessages:
        if (value['type'] === 'message_start')
          this.#addUsage(objectOf(value['message'])?.['usage']);
        else if (value['type'] === 'message_delta') this.#addUsage(value['usage']);
        else if (value['type'] === 'message_stop') this.#hasEnded = true;
        break;
      case ModelApi.Gemini:
        this.#readGemini(value);
    }
  }

  /** A field of a whole answer, or an item of Gemini's list. */
  #readPiece(json: string): void {
    const value = parsed(json);
    if (value === undefined) return;
    this.#readError(value);
    this.#hasContent ||= contents.some((name) => isFilled(value[name]));
    if (this.#api === ModelApi.Gemini) this.#readGemini(value);
    else if (objectOf(value['usage']) !== undefined) this.#usage = objectOf(value['usage']);
    if (value['status'] === 'failed') this.#hasError = true;
  }

  #readError(value: JsonObject): void {
    if (hasErrorIn(value)) this.#hasError = true;
  }

  #readResponseEvent(value: JsonObject): void {
    const ends = ['response.completed', 'response.incomplete', 'response.failed'];
    if (typeof value['type'] !== 'string' || !ends.includes(value['type'])) return;
    this.#hasEnded = true;
    if (value['type'] === 'response.failed') this.#hasError = true;
    this.#usage = objectOf(objectOf(value['response'])?.['usage']);
  }

  /** The counts of later events are those of the whole answer, and replace earlier ones. */
  #addUsage(value: unknown): void {
    const counts = Object.entries(objectOf(value) ?? {}).filter(([, count]) => count !== null);
    this.#usage = { ...this.#usage, ...Object.fromEntries(counts) };
  }

  #readGemini(value: JsonObject): void {
    this.#usage = objectOf(value['usageMetadata']) ?? this.#usage;
    const candidates: readonly unknown[] = Array.isArray(value['candidates'])
      ? value['candidates']
      : [];
    if (candidates.length > 0)
      this.#hasEnded = candidates.every(
        (candidate) => typeof objectOf(candidate)?.['finishReason'] === 'string',
      );
    const feedback = objectOf(value['promptFeedback']);
    if (typeof feedback?.['blockReason'] === 'string') this.#hasEnded = true;
  }
}

/** Fields of whole answers that contain what the model has written. */
const contents = ['choices', 'output', 'content', 'candidates'] as const;

const isFilled = (value: unknown): boolean =>
  value !== undefined && value !== null && !(Array.isArray(value) && value.length === 0);

const hasErrorIn = (value: JsonObject | undefined): boolean =>
  value !== undefined &&
  ((value['error'] !== undefined && value['error'] !== null) || value['type'] === 'error');

function parsed(json: string): JsonObject | undefined {
  try {
    return objectOf(JSON.parse(json));
  } catch {
    return undefined;
  }
}
