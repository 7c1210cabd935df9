import { errorOf, FindingCode, NotTried, outcomeOf, type Finding, type Check } from './check.ts';

export interface CredentialAnswer {
  readonly provider: string;
  readonly host: string;
  readonly status: number;
}

/** Only 401 proves a wrong credential: a valid token may lack the right to read its user. Pure. */
export const gitCredentialFindings = (
  answers: readonly CredentialAnswer[],
  releaseNamespace: string,
): readonly Finding[] =>
  answers.flatMap(({ provider, host, status }) =>
    status === 401
      ? [
          errorOf(FindingCode.gitCredentialRefused, {
            cause: `The host ${host} does not accept the credential ${provider} (status 401).`,
            breaks: `Starts with private repositories of ${provider} end in RepositoryAccessDenied, and pushes fail.`,
            remedy: `kubectl -n ${releaseNamespace} patch secret GIT_CREDENTIALS -p '{"stringData":{"${provider}":"TOKEN"}}'`,
          }),
        ]
      : [],
  );

export const gitHostsCheck: Check = {
  name: 'git-hosts',
  limitMs: 20_000,
  needsApiServer: false,
  run: async (scene, signal) => {
    const credentials = await scene.gitCredentials();
    if (credentials.length === 0) return outcomeOf([], 'no credential is for everybody');
    const notTried: string[] = [];
    const answers: CredentialAnswer[] = [];
    await Promise.all(
      credentials.map(async ({ provider, userUrl, headers }) => {
        if (userUrl === undefined) {
          notTried.push(`the host ${provider} has no API that is known`);
          return;
        }
        try {
          const { status } = await scene.outward.ask(userUrl, { headers, signal });
          answers.push({ provider, host: userUrl.host, status });
          if (status !== 200 && status !== 401)
            notTried.push(`${userUrl.host} answers ${status} to the credential ${provider}`);
        } catch (error) {
          signal.throwIfAborted();
          notTried.push(`${userUrl.host} does not answer`);
          if (!(error instanceof Error)) throw error;
        }
      }),
    );
    const accepted = answers.filter(({ status }) => status === 200);
    const findings = gitCredentialFindings(answers, scene.releaseNamespace);
    if (accepted.length === 0 && findings.length === 0) throw new NotTried(notTried.join('; '));
    const observed = `accepted: ${accepted.map(({ provider }) => provider).join(', ')}`;
    return outcomeOf(findings, observed, notTried);
  },
};
