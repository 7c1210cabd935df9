import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { conversationSchema } from '../../src/gateway/presenters/conversation.ts';
import { startTaskSchema, type StartTask } from '../../src/gateway/presenters/start-task.ts';
import { eventually } from './eventually.ts';

export type ConversationRecord = z.output<typeof conversationSchema>;

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: unknown;
}

/** A user with an API key, who has nothing but the REST service. */
export class RestUser {
  url: string;
  key: string;

  constructor({ url = '', key = '' } = {}) {
    this.url = url;
    this.key = key;
  }

  async call(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    const response = await fetch(`${this.url}${path}`, {
      method,
      headers: {
        Authorization: `Bearer ${this.key}`,
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined
        ? {}
        : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      body: text === '' ? undefined : (JSON.parse(text) as unknown),
    };
  }

  /** Starts a conversation; throws when it is not accepted. */
  async start(text: string, more: object = {}): Promise<StartTask> {
    const { status, body } = await this.call('POST', '/api/v1/app-conversations', {
      ...saying(text),
      ...more,
    });
    if (status !== 200) throw new Error(`${status}: ${JSON.stringify(body)}`);
    return startTaskSchema.parse(body);
  }

  async startTask(id: string): Promise<StartTask> {
    const { body } = await this.call('GET', `/api/v1/app-conversations/start-tasks?ids=${id}`);
    const [task] = z.array(startTaskSchema).parse(body);
    if (task === undefined) throw new Error(`there is no start task ${id}`);
    return task;
  }

  /** The start task once it is READY or in ERROR. */
  over(id: string, timeoutMs?: number): Promise<StartTask> {
    return eventually(
      `start ${id} READY or ERROR`,
      async () => {
        const task = await this.startTask(id);
        return ['READY', 'ERROR'].includes(task.status) && task;
      },
      timeoutMs,
    );
  }

  async conversation(id: string): Promise<ConversationRecord> {
    const { body } = await this.call('GET', `/api/v1/app-conversations?ids=${id}`);
    const [record] = z.array(conversationSchema).parse(body);
    if (record === undefined) throw new Error(`there is no conversation ${id}`);
    return record;
  }

  /** The conversation once it has these values. */
  reaches(
    id: string,
    values: Partial<ConversationRecord>,
    timeoutMs?: number,
  ): Promise<ConversationRecord> {
    return eventually(
      `${id} to have ${JSON.stringify(values)}`,
      async () => {
        const record: ConversationRecord = await this.conversation(id);
        return isDeepStrictEqual({ ...record, ...values }, record) && record;
      },
      timeoutMs,
    );
  }
}

export const saying = (text: string) => ({
  initial_message: { content: [{ type: 'text', text }] },
});
