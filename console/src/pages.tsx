/** Every page: its address, its place in the navigation, and its code, which is loaded when it is first shown. */
import { type ComponentType, lazy } from 'react'
import type { IconName } from './ui/icon'

export const GROUPS = ['Use', 'Operate'] as const

export interface PageRow {
  path: string
  /** The part that may follow the path. */
  rest?: string
  title: string
  note: string
  icon: IconName
  group: (typeof GROUPS)[number]
  /** The control key opens it: it asks for a key by itself. */
  isControlled?: true
  Page: ComponentType
}

export const PAGES: readonly PageRow[] = [
  {
    path: '/chat',
    rest: '/:ids?',
    title: 'Chat',
    note: 'talk to an assistant',
    icon: 'chat',
    group: 'Use',
    Page: lazy(() => import('./pages/chat')),
  },
  {
    path: '/inbox',
    title: 'Inbox',
    note: 'threads that wait for a person',
    icon: 'question',
    group: 'Use',
    Page: lazy(() => import('./pages/inbox')),
  },
  {
    path: '/threads',
    rest: '/:id?',
    title: 'Threads',
    note: 'states, history, forks',
    icon: 'thread',
    group: 'Use',
    Page: lazy(() => import('./pages/threads')),
  },
  {
    path: '/assistants',
    rest: '/:id?',
    title: 'Assistants',
    note: 'configurations, versions',
    icon: 'settings',
    group: 'Use',
    Page: lazy(() => import('./pages/assistants')),
  },
  {
    path: '/graphs',
    rest: '/:assistant?',
    title: 'Graphs',
    note: 'drawn, with the nodes that run',
    icon: 'graph',
    group: 'Use',
    Page: lazy(() => import('./pages/graph')),
  },
  {
    path: '/overview',
    title: 'Overview',
    note: 'what is served, and how it is',
    icon: 'home',
    group: 'Use',
    Page: lazy(() => import('./pages/overview')),
  },
  {
    path: '/runs',
    rest: '/:thread?/:run?',
    title: 'Runs',
    note: 'live, with their events',
    icon: 'runs',
    group: 'Operate',
    Page: lazy(() => import('./pages/runs')),
  },
  {
    path: '/workers',
    title: 'Queues and workers',
    note: 'pools, slots, hosts, take-overs',
    icon: 'workers',
    group: 'Operate',
    Page: lazy(() => import('./pages/workers')),
  },
  {
    path: '/logs',
    title: 'Logs',
    note: 'lines of graphs and workers, followed',
    icon: 'log',
    group: 'Operate',
    Page: lazy(() => import('./pages/logs')),
  },
  {
    path: '/crons',
    title: 'Crons',
    note: 'runs by schedule',
    icon: 'clock',
    group: 'Operate',
    Page: lazy(() => import('./pages/crons')),
  },
  {
    path: '/store',
    title: 'Store',
    note: 'items by namespace and by meaning',
    icon: 'store',
    group: 'Operate',
    Page: lazy(() => import('./pages/store')),
  },
  {
    path: '/deployments',
    rest: '/:id?',
    title: 'Deployments',
    note: 'applications, revisions, logs',
    icon: 'rocket',
    group: 'Operate',
    isControlled: true,
    Page: lazy(() => import('./pages/deployments')),
  },
  {
    path: '/keys',
    title: 'API keys',
    note: 'who may call this server',
    icon: 'key',
    group: 'Operate',
    Page: lazy(() => import('./pages/keys')),
  },
]

/** The pages that the control key opens. */
export const CONTROLLED = PAGES.filter(({ isControlled }) => isControlled)
