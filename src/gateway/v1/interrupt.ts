import type { Route } from '../http/route.ts';
import type { Services } from '../services.ts';
import { agentProblems, agentReading } from './agent-reading.ts';
import { endpoints, success, successSchema } from './endpoints.ts';
import { conversationParams } from './schemas.ts';

const { post } = endpoints('conversations');

/** Ends the run of a conversation and keeps its sandbox; a message continues it. */
export function interruptRoute(services: Services): Route {
  const reading = agentReading(services);
  return post('/api/v1/app-conversations/{id}/interrupt', 'interruptConversation', {
    summary: 'Stop what the agent does; its sandbox keeps running, and a message continues the run',
    params: conversationParams,
    responses: { 200: successSchema },
    problems: agentProblems,
    handle: (call) =>
      reading(
        call,
        ({ endpoint, id }, signal) => services.control.interrupt(endpoint, id, signal),
        () => success,
      ),
  });
}
