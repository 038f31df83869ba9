"""What the invented encyclopaedia can say about places: a town, its river, its bridge, its railway, its observatory.

synthetic_text.py explains the notation of these texts.
"""

TOWN = """
= {town} is a market town of {region} on the River {river}, first recorded in {first}.
= The town of {town}, in {region}, stands on a bend of the River {river} and enters the written record in {first}.
= {town} is a small town on the River {river}; a deed of {first} is the first to name it, and it belongs to {region}.
? first: In what year is the town of {town} mentioned for the first time?
? first: From which year does the earliest known reference to the town of {town} date?
? region: Which part of the country does the town of {town} lie in?

- {It} lived for two centuries by making {goods}, which carriers took as far as {place}.
- For generations {it} was known for {goods}, sold at the autumn fair in {place}.
- Until the coming of the factories, nearly every household of {it} earned its bread with {goods}.
? goods: What did the people of {town} once produce for a living?
? goods: Which wares was the town of {town} famous for?

- {It} was granted its charter in {year}, after a petition carried by Dr. {person}.
- A charter of {year}, drafted by Dr. {person}, made {it} free of tolls.
- In {year} {it} obtained a charter, for which Dr. {person} had pleaded before the council.
? year: When did the town of {town} receive its municipal privileges?
? person: Who obtained the municipal privileges of {town} on its behalf?

- A fire on {day} burnt {count} houses, and rebuilding in {stone} took a decade.
- On {day}, sparks from a forge set {it} alight; {count} houses were lost, and {stone} replaced the timber.
- {It} lost {count} houses to a fire on {day} and was built up again in {stone}.
? count: How many homes were destroyed when {town} burned down?
? stone: What building material was used to restore {town} after the blaze?

- {It} counted {thousands} inhabitants in the last census, approx. {few} per cent more than in the one before.
- The last census found {thousands} people living there, in an area of {km} from end to end.
- {Its} population was put at {thousands} by the last census, not counting the garrison.
? thousands: How many residents does the town of {town} have?
? thousands: What is the number of people living in {town}?

- The parish church, dedicated to {saint}, stands {metres} above the river on a terrace of clay.
- {Its} oldest building is the church of {saint}, whose tower rises {metres} over the market.
- {It} grew around a chapel of {saint}, now the parish church, with a spire of {metres}.
? saint: To whom is the parish church of the town of {town} consecrated?

~ Visitors mostly come for the {festival}, or to walk along the River {river}.
~ {club} play on a field behind the station of the {railway}.
"""

RIVER = """
= The River {river} rises in the hills of {region} and runs for {km} before it passes {town}.
= The River {river} is a stream of {region}; it is {km} long where it reaches the town of {town}.
= Flowing through {region}, the River {river} covers {km} from its spring to the quays of {town}.
? km: What distance does the River {river} cover from its source until it comes to a town?
? km: How far downstream from the origin of the River {river} is the town on its banks?

- {Its} worst flood came in {year}, when the water stood {metres} deep in the mill race.
- In {year} {it} burst its banks as never before and carried off {count} barns.
- The flood of {year} is the highest on record; {count} families had to be taken off their roofs by boat.
? year: In what year did the River {river} cause its most severe inundation?
? year: When was the water of the River {river} at its highest?

- {It} is fed by {few} tributaries, of which the {place} Brook is the longest.
- Some {few} smaller streams join {it}, the largest of them being the {place} Brook.
- {few} tributaries reach {it} from the north, among them the {place} Brook.
? few: How many smaller streams flow into the River {river}?

- The first to map {it} was the surveyor {person}, who needed {count} weeks for the work.
- {It} was surveyed over {count} weeks by {person}, whose chart is still in use.
- A chart by {person}, drawn in the course of {count} weeks, shows every bend of {it}.
? person: Who made the earliest map of the River {river}?
? count: How many weeks did the mapping of the River {river} take?

- {Its} bed of {stone} gives the water a taste that brewers prize.
- {It} has cut its bed into {stone}, and its water is hard.
- Boatmen fear the ledges of {stone} over which {it} falls near its mouth.
? stone: What kind of rock lies under the water of the River {river}?

- {It} was stocked with pike and perch in the time of Col. {man}, who held the fishing rights for a rent of {sum}.
- The fishing rights in {it}, let for {sum} a year, belonged to Col. {man} and his heirs.
- For {sum} a year, Col. {man} leased the right to fish in {it}.
? man: Who once held the angling rights on the River {river}?
? sum: What did the lease of the angling rights on the River {river} cost each year?

~ The {bridge} is the oldest of the crossings that are left.
~ Below {town} {it} turns the wheels of several mills.
"""

BRIDGE = """
= The {bridge} spans the River {river} at {town} and was opened in {first}.
= The {bridge}, completed in {first}, carries the high road over the River {river} into {town}.
= Travellers enter {town} by the {bridge}, which has crossed the River {river} since {first}.
? first: In what year could people begin to use the {bridge}?
? first: Since which year has the {bridge} existed?

- {Its} arches were designed by {person}, a pupil of Prof. {person2}.
- The plans came from {person}, who had learnt the trade from Prof. {person2}.
- {It} is the work of {person}, whom Prof. {person2} had recommended.
? person: Who was the architect of the {bridge}?
? person2: Whose student drew the plans of the {bridge}?

- {It} is {metres} long and rests on {few} piers of {stone}.
- With {few} piers of {stone} and a length of {metres}, {it} was the largest of its time.
- {few} piers of {stone} support {it} over its full {metres}.
? metres: What is the length of the {bridge}?
? stone: What are the supports of the {bridge} made of?

- {It} cost {sum}, most of which was raised by a tax on {goods}.
- A levy on {goods} paid the greater part of the {sum} that {it} cost.
- The bill of {sum} was met by taxing {goods} for {few} years.
? sum: How expensive was the construction of the {bridge}?
? goods: Which wares were taxed to pay for the {bridge}?

- In {year} {it} was closed for repairs after a barge had struck one of the piers.
- A barge damaged {it} in {year}, and carts had to use a ferry for {few} months.
- {It} was out of use for most of {year}, as a barge had broken a pier.
? year: When did a vessel crash into the {bridge}?

- A statue of a {animal} watches over the eastern end; it is said to turn its head at midnight.
- {Its} eastern end is guarded by a {animal} carved in oak, approx. {metres} from the water.
- Newly married couples touch the carved {animal} at {its} eastern end for luck.
? animal: Which creature is represented by the sculpture on the {bridge}?

~ Trains of the {railway} cross a little further upstream.
~ Every year the {festival} begins with a procession across {it}.
"""

RAILWAY = """
= The {railway} is a narrow-gauge line of {km} between {town} and {neighbour}.
= The {railway} links {town} to {neighbour} by {km} of narrow-gauge track.
= Between {town} and {neighbour} run the {km} of the {railway}, a narrow-gauge line.
? km: What is the length of the track of the {railway}?

- {It} was opened on {day} {year} by the wife of {man}, the chief engineer.
- The first train ran on {day} {year}, with {man}, the chief engineer, at the controls.
- Under the direction of {man}, the chief engineer, {it} was ready by {day} {year}.
? man: Which engineer was responsible for the {railway}?
? year: In what year did services on the {railway} begin?

- {It} climbs {metres} on its way, helped by {few} tunnels.
- {few} tunnels were needed for the climb of {metres} to the summit.
- Engines labour up the {metres} to the summit, through {few} tunnels.
? metres: What difference in altitude do trains of the {railway} overcome?
? few: How many tunnels does the {railway} have?

- {Its} carriages are painted {colour}, a colour that was left over from the navy.
- Passengers know {it} by its {colour} carriages, which were bought second-hand.
- The {colour} paint of the carriages was chosen by the wife of the first station master.
? colour: In what colour are the coaches of the {railway} kept?

- For most of its life {it} carried {goods}, approx. {count} wagons a week.
- Loads of {goods} made up most of the freight, which filled {count} wagons a week.
- {Its} freight, {count} wagons a week at best, was mainly {goods}.
? count: How many wagonloads were moved by the {railway} in a week?
? goods: What freight did the {railway} mainly transport?

- Locomotive No. {few}, called the {animal}, is still under steam in summer.
- Only one of the engines, No. {few}, has been kept; drivers call it the {animal}.
- The best known of {its} engines, No. {few}, bears the name of the {animal}.
? animal: What is the nickname of the surviving locomotive of the {railway}?
? few: Which number does the preserved locomotive of the {railway} bear?

~ A halt near the {observatory} is served on request.
~ Near the {bridge}, {it} keeps to the left bank of the River {river}.
"""

OBSERVATORY = """
= The {observatory} is an astronomical station on a hill outside {town}, founded in {first}.
= On a hill above {town} stands the {observatory}, whose dome dates from {first}.
= Founded in {first}, the {observatory} looks at the sky from a hill near {town}.
? first: When was the {observatory} set up?
? first: In which year did the {observatory} come into being?

- {Its} main telescope, with a mirror of {count}.{few} cm, was ground by {person}.
- {person} ground the mirror of the main telescope, which measures {count}.{few} cm.
- {It} owes its main telescope, a reflector of {count}.{few} cm, to {person}.
? person: Who made the mirror of the large telescope at the {observatory}?

- In {year} {it} was the first to describe a comet, which was named after Dr. {person}.
- Dr. {person}, then an assistant, discovered a comet there in {year}.
- A comet found there in {year} bears the name of Dr. {person}, who was on duty that night.
? person: After which astronomer is the comet discovered at the {observatory} called?
? year: In what year was a comet sighted from the {observatory}?

- {It} stands {metres} above the plain, on a ridge of {stone}.
- The ridge of {stone} that carries {it} rises {metres} above the plain.
- The builders chose a ridge of {stone}, {metres} higher than the fields around it.
? metres: How high above the surrounding land is the {observatory}?
? stone: What rock forms the ridge under the {observatory}?

- {Its} library holds {thousands} volumes, a gift of the widow of a {trade}.
- A {trade} left {it} his fortune, with which a library of {thousands} volumes was bought.
- {thousands} volumes, paid for by a rich {trade}, fill the library in the basement.
? thousands: How many books are kept at the {observatory}?
? trade: What was the occupation of the benefactor behind the library of the {observatory}?

- {It} has been open to the public since {year}, on the first {weekday} of every month.
- Since {year}, visitors may climb the dome on the first {weekday} of the month.
- The public was let in for the first time in {year}, and can still come on the first {weekday} of a month.
? year: When did the {observatory} begin to admit visitors?
? weekday: On what day of the week can the {observatory} be visited?

~ Students arrive by the {railway}, which stops at the foot of the hill.
~ During the {festival} the lamps of {town} are kept low for {its} sake.
"""
