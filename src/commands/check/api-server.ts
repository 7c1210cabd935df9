// eslint-disable-next-line no-restricted-imports -- the transport to the API server hides headers
import { Agent, request } from 'undici';
import type { Connection } from '@conversation-operator/kube/transport';
import { connectFailureOf } from './outward-requests.ts';
import {
  errorOf,
  FindingCode,
  outcomeOf,
  type Finding,
  NotTried,
  withValue,
  type Check,
  type Installation,
  type ServerAnswer,
} from './check.ts';

/** Requests `/version` of the API server. The `Date` header of the answer has the server's time. */
export async function askApiServer(
  connection: Connection,
  now: () => number,
  signal: AbortSignal,
): Promise<ServerAnswer> {
  const { server, token, ca, cert, key, serverName, insecure } = connection;
  const agent = new Agent({
    allowH2: false,
    connect: {
      timeout: 8_000,
      rejectUnauthorized: insecure !== true,
      ca,
      cert,
      key,
      servername: serverName,
    },
  });
  try {
    const bearer = typeof token === 'function' ? await token() : token;
    const sentMs = now();
    const { statusCode, headers, body } = await request(`${server.replace(/\/+$/, '')}/version`, {
      dispatcher: agent,
      headers: {
        accept: 'application/json',
        ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }),
      },
      signal,
    });
    const receivedMs = now();
    const { date } = headers;
    const text = await body.text();
    const version = /"gitVersion":\s*"(v[^"]{1,60})"/.exec(text)?.[1];
    return {
      status: statusCode,
      sentMs,
      receivedMs,
      version,
      date: typeof date === 'string' ? date : undefined,
    };
  } catch (error) {
    return { failure: connectFailureOf(error) };
  } finally {
    await agent.destroy();
  }
}

/** Oldest supported minor version of Kubernetes 1 (docs/install.md). */
const minMinor = 31;

export interface ServerFacts extends Installation {
  readonly server: string;
  readonly inCluster: boolean;
}

export function apiServerFindings(answer: ServerAnswer, facts: ServerFacts): readonly Finding[] {
  const { server, inCluster } = facts;
  const breaks = 'The operator and the gateway do nothing without the API server.';
  if ('failure' in answer) {
    const { kind, detail } = answer.failure;
    const cause = `The API server ${server} can not be reached (${detail}).`;
    if (kind === 'certificate')
      return [
        errorOf(FindingCode.certificateUntrusted, {
          cause: `The certificate of the API server ${server} is not trusted (${detail}).`,
          breaks,
          remedy:
            'kubectl config view --minify --raw # certificate-authority-data must be the CA of the server',
        }),
      ];
    const { hostname, port } = new URL(server);
    return [
      errorOf(FindingCode.apiServerUnreachable, {
        cause,
        breaks,
        remedy: inCluster
          ? withValue(facts, `--set-json 'networkPolicies.apiServer.ports=[${port || '443'}]'`)
          : `nc -vz ${hostname} ${port || '443'} # until the network lets this machine through`,
      }),
    ];
  }
  if (answer.status === 401)
    return [
      errorOf(FindingCode.permissionDenied, {
        cause: `The API server ${server} does not accept the credentials (status 401).`,
        breaks,
        remedy: 'kubectl auth whoami # renew the credentials of the kubeconfig',
      }),
    ];
  const minor = Number(/^v1\.(\d+)/.exec(answer.version ?? '')?.[1] ?? Number.NaN);
  return minor < minMinor
    ? [
        errorOf(FindingCode.apiServerOutdated, {
          cause: `The API server is ${answer.version ?? ''}; 1.${minMinor} is the oldest supported version.`,
          breaks: 'Field selectors of custom resources and admission policies are missing.',
          remedy: 'kubectl version # upgrade the cluster',
        }),
      ]
    : [];
}

export const apiServerCheck: Check = {
  name: 'api-server',
  limitMs: 10_000,
  needsApiServer: false,
  run: async (scene) => {
    const answer = await scene.apiServer();
    const { server } = scene.connection;
    const inCluster = process.env['KUBERNETES_SERVICE_HOST'] !== undefined;
    const version = 'failure' in answer ? '' : (answer.version ?? `status ${answer.status}`);
    return outcomeOf(
      apiServerFindings(answer, { ...scene, server, inCluster }),
      `${server} answers: ${version}`,
    );
  },
};

/** Maximum difference of the clocks that causes no finding. */
const maxSkewMs = 60_000;

/**
 * Clock of this process minus clock of the API server, in milliseconds. The `Date` header has whole
 * seconds, and its time is between request and answer. Undefined without a valid header.
 */
export function skewMs(answer: ServerAnswer): number | undefined {
  if ('failure' in answer || answer.date === undefined) return undefined;
  const serverMs = Date.parse(answer.date);
  if (Number.isNaN(serverMs)) return undefined;
  const { sentMs, receivedMs } = answer;
  if (receivedMs < serverMs) return receivedMs - serverMs;
  return Math.max(0, sentMs - (serverMs + 999));
}

export function clockFindings(skew: number): readonly Finding[] {
  if (Math.abs(skew) <= maxSkewMs) return [];
  const seconds = Math.round(Math.abs(skew) / 1000);
  return [
    errorOf(FindingCode.clockSkewed, {
      cause: `The clock here is ${seconds} s ${skew > 0 ? 'ahead of' : 'behind'} that of the API server.`,
      breaks:
        'Leases change their leader, deadlines of starts and retention times are wrong, and S3 and tokens refuse requests.',
      remedy:
        'sudo chronyc makestep # on the node or machine whose clock is wrong; then: chronyc tracking',
    }),
  ];
}

export const clockCheck: Check = {
  name: 'clock',
  limitMs: 10_000,
  needsApiServer: true,
  run: async (scene) => {
    const skew = skewMs(await scene.apiServer());
    if (skew === undefined) throw new NotTried('the answer of the API server has no Date header');
    return outcomeOf(clockFindings(skew), 'the clocks differ by less than 60 s');
  },
};
