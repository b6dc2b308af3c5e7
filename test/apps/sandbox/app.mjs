import { Hono } from 'hono'

export const app = new Hono().get('/mine', c => c.text('mine'))
