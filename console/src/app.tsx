/** The frame around the pages, and which page an address shows. */
import { Suspense, useEffect } from 'react'
import { Redirect, Route, Router, Switch, useLocation } from 'wouter'
import { useAddress } from './api/address'
import { session } from './api/session'
import { useStore } from './api/store'
import { PAGES } from './pages'
import { Banner } from './shell/banner'
import { Boundary } from './shell/boundary'
import { Nav } from './shell/nav'
import { Palette } from './shell/palette'
import { SignIn } from './shell/sign-in'
import { Empty, Loading } from './ui/notice'

export const App = () => (
  <Router hook={useAddress}>
    <Frame />
  </Router>
)

function Frame() {
  const [at] = useLocation()
  const { refused, controlKey } = useStore(session)
  const current = PAGES.find(({ path }) => at === path || at.startsWith(`${path}/`))
  useEffect(() => {
    document.title = current === undefined ? 'Weft' : `${current.title} · Weft`
  }, [current])
  return (
    <div className="frame">
      <button type="button" className="skip" onClick={() => document.getElementById('main')?.focus()}>
        Skip to the content
      </button>
      <Nav current={current} />
      <div className="stage">
        <Banner />
        <main id="main" tabIndex={-1}>
          {refused !== null && !(current?.isControlled && controlKey !== '') ? (
            <SignIn reason={refused} />
          ) : (
            <Boundary key={current?.path}>
              <Suspense fallback={<Loading />}>
                <Switch>
                  {PAGES.map(({ path, rest = '', Page }) => (
                    <Route key={path} path={`${path}${rest}`} component={Page} />
                  ))}
                  <Route path="/">
                    <Redirect to={PAGES[0]!.path} replace />
                  </Route>
                  <Route>
                    <Empty title="There is no such page">The address names no page of the console.</Empty>
                  </Route>
                </Switch>
              </Suspense>
            </Boundary>
          )}
        </main>
      </div>
      <Palette />
    </div>
  )
}
