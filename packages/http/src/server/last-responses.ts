import type { ServerResponse } from 'node:http';

/**
 * Announces the end of each connection with its last response, once a shutdown has begun: a client
 * that sends another request while its connection is closed could not know whether that request was
 * carried out. A response with its headers sent can not announce it.
 */
export class LastResponses {
  readonly #underWay = new Set<ServerResponse>();
  #begun = false;

  /** Expects a response of which nothing has been sent. */
  add(response: ServerResponse): void {
    if (this.#begun) {
      mark(response);
      return;
    }
    this.#underWay.add(response);
    response.once('close', () => this.#underWay.delete(response));
  }

  /**
   * Makes every response from now on the last one of its connection, also responses to requests
   * under way.
   */
  begin(): void {
    this.#begun = true;
    for (const response of this.#underWay) if (!response.headersSent) mark(response);
  }
}

const mark = (response: ServerResponse): void => {
  response.setHeader('connection', 'close');
};
