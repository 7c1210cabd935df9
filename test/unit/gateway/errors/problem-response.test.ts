import { ProblemError } from '../../../../src/gateway/errors/problem-error.ts';
import {
  problemBody,
  problemSchema,
  toProblem,
} from '../../../../src/gateway/errors/problem-response.ts';
import { problems, type ProblemCode } from '../../../../src/gateway/errors/catalogue.ts';
import { Refusal, type RefusalCode } from '@conversation-operator/http/refusal';
import { ApiError, TransportError } from '@conversation-operator/kube/errors';

const apiError = (status: number, reason: string, retryAfterSeconds?: number) =>
  new ApiError(status, {
    message: 'conversations.conversation-operator.dev "x" is forbidden: secret of kubernetes',
    reason,
    ...(retryAfterSeconds === undefined ? {} : { details: { retryAfterSeconds } }),
  });

describe('what is thrown becomes', () => {
  it.each<[string, unknown, ProblemCode]>([
    [
      'unavailable when there was no answer',
      new TransportError('connect ECONNREFUSED 10.0.0.1:6443'),
      'unavailable',
    ],
    [
      'unavailable when the API server is overloaded',
      apiError(429, 'TooManyRequests', 7),
      'unavailable',
    ],
    ['unavailable when the API server fails', apiError(500, 'InternalError'), 'unavailable'],
    [
      'unavailable when our own token is not good any more',
      apiError(401, 'Unauthorized'),
      'unavailable',
    ],
    ['not found when it went meanwhile', apiError(404, 'NotFound'), 'not-found'],
    ['a conflict when it changed meanwhile', apiError(409, 'Conflict'), 'conflict'],
    ['invalid when the API server refuses it', apiError(422, 'Invalid'), 'invalid-request'],
    [
      'refused by the cluster when we are not allowed',
      apiError(403, 'Forbidden'),
      'refused-by-cluster',
    ],
    ['internal for a fault of ours', new TypeError('x is not a function'), 'internal'],
    ['internal for what is no error', 'oops', 'internal'],
    ['internal for nothing', undefined, 'internal'],
    ['itself for a problem', new ProblemError('wrong-state', 'Paused.'), 'wrong-state'],
  ])('%s', (_case, thrown, code) => {
    const problem = toProblem(thrown);
    const body = problemBody(problem, 'r-1');
    expect(body).toMatchObject({
      code,
      status: problems[code].status,
      title: problems[code].title,
      request_id: 'r-1',
    });
    expect(JSON.stringify(body)).not.toMatch(/kubernetes|ECONN|function|oops/);
    expect(problemSchema.parse(body)).toEqual(body);
  });

  it.each<[RefusalCode, number]>([
    ['overloaded', 503],
    ['share-exceeded', 429],
    ['rate-limited', 429],
    ['body-too-large', 413],
  ])('a problem with the headers of the refusal: %s is %d', (code, status) => {
    const cause = new Error('what a log may have');
    const headers = { 'retry-after': '2' };
    expect(toProblem(new Refusal(code, 'Not now [x].', { headers, cause }))).toMatchObject({
      code,
      status,
      headers,
      cause,
      message: 'Not now [x].',
    });
  });

  it('unavailable with the time to wait that the API server asked for', () => {
    expect(toProblem(apiError(429, 'TooManyRequests', 7)).headers).toEqual({ 'retry-after': '7' });
    expect(toProblem(new TransportError('reset')).headers).toEqual({ 'retry-after': '1' });
  });

  it('text as it is, also with square brackets', () => {
    const detail = 'body.content[0].text must match the pattern /^[a-z]+$/.';
    expect(problemBody(new ProblemError('invalid-request', detail), 'r-1')).toMatchObject({
      detail,
    });
  });
});
