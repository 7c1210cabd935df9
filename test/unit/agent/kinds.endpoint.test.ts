import { agentEndpointOf } from '../../../src/agent/kinds.ts';
import { aSandbox } from '../../support/builders.ts';

const keys = { sessionKey: () => 'key' };

it.each([
  ['10.1.2.3', 'http://10.1.2.3:8000'],
  ['fd00:10:244::5', 'http://[fd00:10:244::5]:8000'],
  ['::ffff:10.1.2.3', 'http://[::ffff:10.1.2.3]:8000'],
  ['agent.example', undefined],
  ['[::1]', undefined],
  [undefined, undefined],
])('the agent of a pod with the address %s is at %s', (podIP, expected) => {
  const status = podIP === undefined ? {} : { podIP };
  expect(agentEndpointOf(aSandbox({ status }), keys)?.baseUrl).toBe(expected);
});
