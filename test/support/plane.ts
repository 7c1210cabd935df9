/* oxlint-disable @typescript-eslint/no-unsafe-assignment --
  Answers are JSON of every shape; a wrong guess fails the test. */
import {
  ControlPlane,
  type ControlPlaneOptions,
} from '@conversation-operator/local-cluster/control-plane';
import type { PlaneResponse } from '../../packages/local-cluster/src/api/request.ts';
import {
  type WatchStream,
  WatchStream as Stream,
} from '../../packages/local-cluster/src/storage/changes.ts';
import { silentLogger } from '@conversation-operator/base/logger';
import { crds } from './crds.ts';
import { VirtualClock } from './virtual-clock.ts';

/** The type is loose on purpose: tests read answers of every kind. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Body;
}
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- JSON of every shape
export type Body = any;

export interface WatchedEvent {
  readonly type: string;
  readonly object: Body;
}

export const group = '/apis/conversation-operator.dev/v1alpha1';
export const inDefault = (plural: string, name?: string, part?: string): string =>
  `${group}/namespaces/default/${[plural, name, part].filter((text) => text !== undefined).join('/')}`;
export const coreInDefault = (plural: string, name?: string, part?: string): string =>
  `/api/v1/namespaces/default/${[plural, name, part].filter((text) => text !== undefined).join('/')}`;

export const aConversation = (name: string, spec: object = {}, metadata: object = {}) => ({
  apiVersion: 'conversation-operator.dev/v1alpha1',
  kind: 'Conversation',
  metadata: { name, ...metadata },
  spec: { owner: 'alice', ...spec },
});
export const aPod = (name: string, metadata: object = {}) => ({
  metadata: { name, ...metadata },
  spec: { containers: [{ name: 'agent', image: 'agent:1' }] },
});

/** A control plane in memory under a virtual clock, and short ways to ask it. */
export class Plane {
  readonly clock = new VirtualClock();
  readonly plane: ControlPlane;
  readonly #streams: WatchStream[] = [];

  constructor(options: Partial<ControlPlaneOptions> = {}) {
    let seed = 1;
    const random = () => {
      seed = (seed * 16_807) % 2_147_483_647;
      return seed / 2_147_483_647;
    };
    this.plane = new ControlPlane({
      storage: 'memory',
      clock: this.clock,
      random,
      logger: silentLogger,
      ...options,
    });
  }

  async start(): Promise<this> {
    await this.plane.start();
    await this.plane.applyCrds(crds());
    return this;
  }

  async call(
    method: string,
    target: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    const [path = '', query = ''] = target.split('?');
    const response = await this.plane.handle({
      method,
      path,
      query: new URLSearchParams(query),
      headers: { 'content-type': 'application/json', ...headers },
      ...(body === undefined
        ? {}
        : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    return { status: response.status, headers: response.headers, body: bodyOf(response) };
  }

  readonly get = (target: string, headers?: Record<string, string>) =>
    this.call('GET', target, undefined, headers);
  readonly post = (target: string, body: unknown) => this.call('POST', target, body);
  readonly put = (target: string, body: unknown) => this.call('PUT', target, body);
  readonly remove = (target: string, body?: unknown) => this.call('DELETE', target, body);
  readonly merge = (target: string, body: unknown) =>
    this.call('PATCH', target, body, { 'content-type': 'application/merge-patch+json' });
  readonly apply = (target: string, body: unknown) =>
    this.call('PATCH', target, body, { 'content-type': 'application/apply-patch+yaml' });

  /** A watch; `take()` gives the events since the last call, once all that is ready has run. */
  async watch(
    target: string,
    headers: Record<string, string> = {},
  ): Promise<{ take(): Promise<readonly WatchedEvent[]>; readonly stream: WatchStream }> {
    const [path = '', query = ''] = target.split('?');
    const response = await this.plane.handle({
      method: 'GET',
      path,
      query: new URLSearchParams(`watch=true&${query}`),
      headers,
    });
    const { body: stream } = response;
    if (!(stream instanceof Stream)) throw new Error(`no stream: ${JSON.stringify(response)}`);
    this.#streams.push(stream);
    const events: WatchedEvent[] = [];
    void (async () => {
      for await (const text of stream)
        for (const line of text.trim().split('\n')) events.push(JSON.parse(line) as WatchedEvent);
    })();
    return {
      stream,
      take: async () => {
        await this.clock.settle();
        return events.splice(0);
      },
    };
  }

  async close(): Promise<void> {
    await this.plane.close();
  }
}

const bodyOf = ({ body, headers }: PlaneResponse): Body => {
  if (typeof body !== 'string') return body;
  return headers['content-type']?.startsWith('application/json') === true ? JSON.parse(body) : body;
};
