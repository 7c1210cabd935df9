import { isStartOver, type Conversation } from '../../resources/conversation.ts';
import type { Response } from 'express';
import type { Services } from '../app/services.ts';
import { startTaskAt, transitionsOf, type StartTask, type Transition } from '../views/start-task.ts';

/** Shorter than the idle time after which common proxies cut a connection. */
const whiteSpaceMs = 15_000;

/**
 * Writes a start as a JSON array, one element for each status it has had or will have, until READY or ERROR. What happens in
 * between is read from the list of transitions, so none is missed however many come at once. A client that leaves ends the
 * writing and nothing else; a shutdown ends the array.
 */
export function streamStart(services: Services, response: Response, conversation: Conversation): void {
  const { feeds, clock, exposure, records, streams, waiting } = services;
  const { name, uid } = conversation.metadata;
  const { owner } = conversation.spec;
  let known = conversation;
  let written = 0;
  let over = false;

  const isOver = () => over;
  const end = (closing = ']') => {
    if (over) return;
    over = true;
    stopListening();
    forget();
    timer.cancel();
    response.end(closing);
  };
  const write = (task: StartTask) => {
    response.write(`${written === 0 ? '' : ',\n'}${JSON.stringify(task)}`);
    written += 1;
    waiting.add(response, owner, () => response.destroy());
  };
  const show = (transition: Transition) => {
    if (over) return;
    const access = exposure.accessTo(records.sandboxNamed(known.status?.sandboxName));
    write(startTaskAt(known, transition, access));
    if (isStartOver(transition.status)) end();
  };
  const follow = (object: Conversation | undefined) => {
    if (over) return;
    if (object?.metadata.uid !== uid || object.metadata.deletionTimestamp !== undefined) {
      const time = new Date(clock.now()).toISOString();
      const deleted = 'The conversation was deleted before its start was over.';
      write({ ...startTaskAt(known, { status: 'ERROR', time }, undefined), detail: deleted, error: deleted });
      end();
      return;
    }
    known = object;
    for (const transition of transitionsOf(known).slice(written)) {
      show(transition);
      if (isStartOver(transition.status)) return;
    }
  };
  const keepOpen = () =>
    clock.after(whiteSpaceMs, () => {
      response.write('\n');
      timer = keepOpen();
    });

  response.statusCode = 200;
  response.setHeader('content-type', 'application/json');
  response.setHeader('x-accel-buffering', 'no');
  response.write('[');
  let timer = keepOpen();
  const stopListening = feeds.conversations.on(name, follow);
  let forget = (): void => undefined;
  response.once('close', () => end(''));
  show({ status: 'WORKING', time: conversation.metadata.creationTimestamp });
  // Nothing is awaited between this look and the listening above: no state falls between them.
  const cached = records.cachedConversation(name);
  follow(cached?.metadata.uid === uid ? cached : conversation);
  // Last, since a shutdown that has begun ends it at once: the client learns which start it is all the same.
  forget = streams.add(() => end());
  if (isOver()) forget();
}
