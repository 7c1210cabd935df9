import { createServer, type IncomingHttpHeaders } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { githubErrors } from './github-schema.ts';

export interface GithubCall {
  /** An operation as GitHub describes it: `GET /repos/{owner}/{repo}`. */
  readonly operation: string;
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
  readonly body: Readonly<Record<string, unknown>>;
  /** The token of the Authorization header. */
  readonly token: string;
  readonly headers: IncomingHttpHeaders;
}

export interface GithubAnswer {
  readonly status: number;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export type GithubOperation = (call: GithubCall) => GithubAnswer | Promise<GithubAnswer>;

export interface GithubApi {
  /** Base URL of the API. */
  readonly url: string;
  readonly calls: readonly GithubCall[];
  /** Violations of GitHub's description by requests and answers: none in a good test. */
  readonly violations: readonly string[];
  /** Answers every request with this, until it is undefined again. */
  outage: GithubAnswer | undefined;
  close(): Promise<void>;
}

/** An error as GitHub words it. */
export const githubError = (
  status: number,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): GithubAnswer => ({
  status,
  headers,
  body: { message, documentation_url: 'https://docs.github.com/rest', status: String(status) },
});

/** A server with some operations of GitHub's API, which checks both sides by GitHub's schema. */
export async function startGithubApi(
  operations: Readonly<Record<string, GithubOperation>>,
): Promise<GithubApi> {
  const calls: GithubCall[] = [];
  const violations: string[] = [];
  let outage: GithubAnswer | undefined;
  const routes = Object.entries(operations).map(([operation, handle]) => {
    const [method = '', path = ''] = operation.split(' ');
    const pattern = new RegExp(`^${path.replace(/\{(\w+)\}/g, '(?<$1>[^/]+)')}$`);
    return { operation, method, pattern, handle };
  });

  const answerTo = async (
    method: string,
    { pathname, searchParams }: URL,
    headers: IncomingHttpHeaders,
    text: string,
  ): Promise<GithubAnswer> => {
    const route = routes.find((each) => each.method === method && each.pattern.test(pathname));
    if (route === undefined) return githubError(404, 'Not Found');
    const { operation, handle } = route;
    const groups = route.pattern.exec(pathname)?.groups ?? {};
    const params = Object.fromEntries(
      Object.entries(groups).map(([name, value]) => [name, decodeURIComponent(value)]),
    );
    const query = Object.fromEntries(searchParams);
    const body = (text === '' ? {} : JSON.parse(text)) as Record<string, unknown>;
    const token = /^(?:token|bearer) (.+)$/i.exec(headers.authorization ?? '')?.[1] ?? '';
    calls.push({ operation, params, query, body, token, headers });
    violations.push(
      ...(method === 'POST' ? githubErrors('in', operation, body) : []),
      ...(searchParams.size > 0 ? githubErrors('query', operation, query) : []),
      ...(headers['user-agent'] === undefined ? [`${operation} without a user-agent`] : []),
    );
    if (outage !== undefined) return outage;
    const answer = await handle({ operation, params, query, body, token, headers });
    if (answer.status < 300 && answer.body !== undefined)
      violations.push(...githubErrors('out', operation, answer.body));
    return answer;
  };

  const server = createServer((request, response) => {
    void (async () => {
      let text = '';
      for await (const chunk of request) text += String(chunk);
      const url = new URL(request.url ?? '/', 'http://api');
      const { status, headers, body } = await answerTo(
        ...([request.method ?? '', url, request.headers, text] as const),
      ).catch((error: unknown) => {
        violations.push(String(error));
        return githubError(500, 'Server Error');
      });
      response.writeHead(status, { 'content-type': 'application/json; charset=utf-8', ...headers });
      response.end(body === undefined ? undefined : JSON.stringify(body));
    })();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    calls,
    violations,
    get outage() {
      return outage;
    },
    set outage(answer) {
      outage = answer;
    },
    close: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}
